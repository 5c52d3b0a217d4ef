"""What follows from a record's ``math``: a program for emitters, and the derivative when nobody wrote one."""

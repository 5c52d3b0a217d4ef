"""``tensorplay bisect``: runs every operator of a program on two devices, and finds the first whose results part."""

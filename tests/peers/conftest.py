"""What is not collected here."""

collect_ignore = ["hips"]  # modules of another process, where HIPS autograd's tests run

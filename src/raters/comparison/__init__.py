"""Which method for one's own study, and the resumable runner of many trainings."""

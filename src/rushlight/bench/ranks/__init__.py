"""Measurements of several ranks beside torch's: both jobs run at once and take turns."""

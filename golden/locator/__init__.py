"""Communities found at run time: schedules, records, the step-exact locator, its independent check, allocation."""

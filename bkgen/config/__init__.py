"""Files become values here, and nowhere else: settings, suites, and every mistake in them at once."""

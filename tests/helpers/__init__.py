"""What several test files share: tables, sweeps and data sets made for tests."""

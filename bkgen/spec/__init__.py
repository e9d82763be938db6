"""What users write, as frozen types: `pipeline.yml` (`SuiteSpec`) and `bkgen.yml` (`Settings`)."""

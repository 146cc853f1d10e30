"""What every run shares: folder, assets, stages, engine, what trained runs can do, comparison."""

"""Models of images with something hidden behind them."""

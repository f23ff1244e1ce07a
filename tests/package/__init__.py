"""What a distribution gets: packages, and what installs and runs them."""

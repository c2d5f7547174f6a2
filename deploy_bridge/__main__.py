"""`python -m gatepilot.deploy_bridge`, the same as `gatepilot-bridge`."""

from .cli import main

if __name__ == "__main__":
    main()

refused: --format dockerfile: an image runs Linux, and this plan is for win_amd64: add --platform linux_x86_64.

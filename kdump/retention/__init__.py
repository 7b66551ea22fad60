"""What a broker's retention deletes and when: by log start offset, by size and by time; what keeps it from deleting."""

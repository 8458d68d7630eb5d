void barrier_dsync_fence_full(void);

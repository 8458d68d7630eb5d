void printk(const char *format, ...);

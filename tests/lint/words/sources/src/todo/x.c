int heart_new(void);

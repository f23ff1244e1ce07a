/*
 * The smallest handler there is: it ends, with success. Linked statically and without a C library where
 * that is possible, so that what is measured is what starts it.
 */
#if defined(__x86_64__)
_Noreturn void _start(void);
_Noreturn void _start(void)
{
	__asm__ volatile("mov $60, %eax\n\txor %edi, %edi\n\tsyscall");
	__builtin_unreachable();
}
#elif defined(__aarch64__)
_Noreturn void _start(void);
_Noreturn void _start(void)
{
	__asm__ volatile("mov x8, #93\n\tmov x0, #0\n\tsvc #0");
	__builtin_unreachable();
}
#else
int main(void)
{
	return 0;
}
#endif

/* Tests of the device interface; needs a GPU. The last line tells how many groups of lanes passed. */
#include <stdio.h>

void device_tests_1();
void device_tests_2();
void device_tests_4();
void device_tests_8();

int main()
{
    device_tests_1();
    device_tests_2();
    device_tests_4();
    device_tests_8();
    printf("all is well\n");
    return 0;
}

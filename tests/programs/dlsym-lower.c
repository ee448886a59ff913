/* SPDX-License-Identifier: Apache-2.0 */
/* The lower of two libraries that define the same names. */

const char *whose(void);
int cuFooCreate(void);

const char *whose(void)
{
	return "lower";
}

int cuFooCreate(void)
{
	return 21;
}

/* The serial port of LiteX, polled. SPDX-License-Identifier: Apache-2.0 */
#include "board.h"
#include "system.h"

void put_byte(uint8_t byte)
{
    while (load(CSR_UART_TXFULL))
        ;
    store(CSR_UART_RXTX, byte);
}

uint8_t get_byte(void)
{
    while (load(CSR_UART_RXEMPTY))
        ;
    uint8_t byte = (uint8_t)load(CSR_UART_RXTX);
    store(CSR_UART_EV_PENDING, 2); /* takes the byte out of the queue */
    return byte;
}

void put_text(const char *text)
{
    for (; *text; text++) {
        if (*text == '\n')
            put_byte('\r');
        put_byte((uint8_t)*text);
    }
}

/* Divides by ten, 16 bits at a time, and returns the remainder: the compiler's own division of 64 bits is a library's. */
static uint32_t divide_by_ten(uint64_t *value)
{
    uint32_t rest = 0;
    uint64_t quotient = 0;
    for (int shift = 48; shift >= 0; shift -= 16) {
        uint32_t part = rest << 16 | (uint32_t)(*value >> shift & 0xffffu);
        quotient = quotient << 16 | part / 10;
        rest = part % 10;
    }
    *value = quotient;
    return rest;
}

void put_number(uint64_t value)
{
    char digits[20];
    int n = 0;
    do
        digits[n++] = (char)('0' + divide_by_ten(&value));
    while (value);
    while (n > 0)
        put_byte((uint8_t)digits[--n]);
}

// Package dhcp is what the clients of DHCPv4 and DHCPv6 have in common: what
// drives their machines, and what they tell.
//
// All times are since the machine's start (CLOCK_BOOTTIME): a boot sets the
// wall clock by decades, and a lease must not notice.
package dhcp

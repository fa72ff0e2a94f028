// Package dhcp6 is a DHCPv6 client for addresses (IA_NA) and configuration
// (RFC 8415, with RFC 3646, 5908 and 7083). Prefixes and temporary addresses
// are not asked for.
//
// It is made as package dhcp4 is: Machine is the protocol, Client gives it a
// clock and a socket, and times are since the machine's start.
package dhcp6

// Package dhcp4 is a DHCPv4 client (RFC 2131, with RFC 2132, 3396, 3397, 3442,
// 4361, 5227 and 6842).
//
// Machine is the protocol: pure, an event and the time in, actions out. Client
// gives it a clock (package dhcp) and sockets. Neither touches an address or a route: who
// wants the lease reads it from Client.Status and makes the network so.
//
// All times are since the machine's start (CLOCK_BOOTTIME): a boot sets the
// wall clock by decades, and a lease must not notice.
package dhcp4

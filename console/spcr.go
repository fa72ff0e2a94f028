package console

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// spcrPort is what the ACPI Serial Port Console Redirection table says: the
// port that the firmware itself, and so most likely the BMC, talks on.
type spcrPort struct {
	mmio bool
	addr uint64
	baud int // 0: as the firmware left it
}

// Offsets in the SPCR table (Microsoft, Serial Port Console Redirection Table).
const (
	spcrInterface = 36 // 12 bytes: generic address structure at 40
	spcrSpaceID   = 40
	spcrAddress   = 44
	spcrBaud      = 58
	spcrMin       = 80
)

// spcrBauds are the codes of the baud rate field.
var spcrBauds = map[byte]int{3: 9600, 4: 19200, 6: 57600, 7: 115200}

func parseSPCR(b []byte) (spcrPort, error) {
	if len(b) < spcrMin || string(b[:4]) != "SPCR" {
		return spcrPort{}, fmt.Errorf("parse SPCR table of %d bytes: not one", len(b))
	}
	if n := binary.LittleEndian.Uint32(b[4:]); n < spcrMin || uint64(n) > uint64(len(b)) {
		return spcrPort{}, fmt.Errorf("parse SPCR table: length %d of %d bytes", n, len(b))
	}
	var sum byte
	for _, c := range b[:binary.LittleEndian.Uint32(b[4:])] {
		sum += c
	}
	if sum != 0 {
		return spcrPort{}, errors.New("parse SPCR table: wrong checksum")
	}
	p := spcrPort{
		mmio: b[spcrSpaceID] == 0,
		addr: binary.LittleEndian.Uint64(b[spcrAddress:]),
		baud: spcrBauds[b[spcrBaud]],
	}
	// Space 0 is memory, 1 is I/O; address 0 says that redirection is off.
	if b[spcrSpaceID] > 1 || p.addr == 0 {
		return spcrPort{}, errors.New("parse SPCR table: console redirection is off")
	}
	return p, nil
}

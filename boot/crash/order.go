package crash

import (
	"crypto/sha256"
	"encoding/binary"
)

// A slot ends with a sector that says where its record stands in the order of
// the deaths on this disk. The times in records cannot tell: the clock of a
// machine without a battery goes back with each boot, and which record is the
// oldest decides what gives way.
//
//	0   magic "RVORDER\n"
//	8   number, from 1, little endian
//	16  id of the record, 16 bytes of text
//	32  SHA-256 of bytes 0 to 32
const (
	orderMagic = "RVORDER\n"
	orderSize  = 512
	orderHead  = 32
)

func encodeOrder(n uint64, id string) []byte {
	b := make([]byte, orderSize)
	copy(b, orderMagic)
	binary.LittleEndian.PutUint64(b[8:], n)
	copy(b[16:orderHead], id)
	sum := sha256.Sum256(b[:orderHead])
	copy(b[orderHead:], sum[:])
	return b
}

// orderOf is the number in a slot's last sector, if that is of the record with
// this id; else 0: the power went between the two, and the record's own time is
// all there is.
func orderOf(b []byte, id string) uint64 {
	if len(b) < orderHead+sha256.Size || string(b[:8]) != orderMagic || string(b[16:orderHead]) != id {
		return 0
	}
	if sum := sha256.Sum256(b[:orderHead]); string(sum[:]) != string(b[orderHead:orderHead+sha256.Size]) {
		return 0
	}
	return binary.LittleEndian.Uint64(b[8:])
}

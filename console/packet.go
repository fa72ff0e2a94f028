package console

import (
	"errors"
	"fmt"
)

// A packet carries one record from the agent to init over a datagram or
// seqpacket socket:
//
//	byte 0  packetVersion
//	byte 1  level
//	byte 2  length of the origin, n (1..32)
//	3..3+n  origin
//	rest    text, UTF-8
const packetVersion = 1

// MaxPacket is the largest packet in bytes: a reader needs a buffer of this
// size. Well under the default socket buffer (212992).
const MaxPacket = 32 << 10

// EncodePacket makes a packet; text that does not fit is cut, and says so.
func EncodePacket(origin string, level Level, text string) []byte {
	origin = cleanOrigin(origin)
	limit := MaxPacket - 3 - len(origin)
	if len(text) > limit {
		mark := fmt.Sprintf(" (cut, was %s)", byteSize(int64(len(text))))
		text, _ = truncate(text, limit-len(mark))
		text += mark
	}
	p := make([]byte, 0, 3+len(origin)+len(text))
	p = append(p, packetVersion, byte(level), byte(len(origin)))
	p = append(p, origin...)
	return append(p, text...)
}

var errPacket = errors.New("not a log packet")

// DecodePacket is the inverse, for bytes from a process that may be broken.
// The level is Error at most: the crash lane is init's own.
func DecodePacket(p []byte) (Entry, error) {
	if len(p) < 4 || len(p) > MaxPacket || p[0] != packetVersion {
		return Entry{}, fmt.Errorf("decode %d bytes: %w", len(p), errPacket)
	}
	n := int(p[2])
	if n == 0 || n > maxOrigin || 3+n > len(p) {
		return Entry{}, fmt.Errorf("decode origin of %d bytes: %w", n, errPacket)
	}
	return Entry{
		Origin: cleanOrigin(string(p[3 : 3+n])),
		Level:  min(Level(p[1]), Error),
		Text:   string(p[3+n:]),
	}, nil
}

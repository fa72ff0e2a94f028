package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

var errNotFAT = errors.New("no FAT file system")

// fatGeometry is what the boot sector tells (Microsoft's FAT specification 1.03,
// "Boot Sector and BPB").
type fatGeometry struct {
	root      int64 // offset of the root directory, bytes
	rootLen   int64 // bytes of it that are looked at
	bootLabel string
}

// fatLabel returns the volume label of a FAT12, FAT16 or FAT32 file system. The
// entry in the root directory counts; the boot sector's copy stands in where
// there is none, for tools differ in which of them they write.
func fatLabel(r io.ReaderAt) (string, error) {
	sector := make([]byte, 512)
	if _, err := r.ReadAt(sector, 0); err != nil {
		return "", fmt.Errorf("read boot sector: %w", err)
	}
	g, err := parseBootSector(sector)
	if err != nil {
		return "", err
	}
	dir := make([]byte, g.rootLen)
	n, err := r.ReadAt(dir, g.root)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read root directory: %w", err)
	}
	if label, ok := rootLabel(dir[:n]); ok {
		return label, nil
	}
	return g.bootLabel, nil
}

// maxRootLen bounds what is read of a root directory: a label entry is made
// when the file system is, so it comes first. 64 KiB is the largest cluster.
const maxRootLen = 64 << 10

func parseBootSector(b []byte) (fatGeometry, error) {
	le16 := func(off int) int64 { return int64(binary.LittleEndian.Uint16(b[off:])) }
	le32 := func(off int) int64 { return int64(binary.LittleEndian.Uint32(b[off:])) }
	sectorSize, perCluster, reserved, fats := le16(11), int64(b[13]), le16(14), int64(b[16])
	switch {
	case b[510] != 0x55 || b[511] != 0xAA,
		b[0] != 0xEB && b[0] != 0xE9, // the jump over the BPB
		sectorSize < 512 || sectorSize > 4096 || sectorSize&(sectorSize-1) != 0,
		perCluster == 0 || perCluster&(perCluster-1) != 0,
		reserved == 0 || fats == 0 || fats > 2:
		return fatGeometry{}, errNotFAT
	}
	if rootEntries, fatSize := le16(17), le16(22); rootEntries > 0 && fatSize > 0 { // FAT12, FAT16
		return fatGeometry{
			root:      (reserved + fats*fatSize) * sectorSize,
			rootLen:   min(rootEntries*dirEntryLen, maxRootLen),
			bootLabel: bootLabel(b[38:54]),
		}, nil
	}
	fatSize, rootCluster := le32(36), le32(44) // FAT32
	if fatSize == 0 || rootCluster < 2 {
		return fatGeometry{}, errNotFAT
	}
	first := reserved + fats*fatSize
	return fatGeometry{
		root:      (first + (rootCluster-2)*perCluster) * sectorSize,
		rootLen:   min(perCluster*sectorSize, maxRootLen),
		bootLabel: bootLabel(b[66:82]),
	}, nil
}

// bootLabel reads the extended BPB: signature 0x29, serial number, label.
func bootLabel(ext []byte) string {
	if ext[0] != 0x29 {
		return ""
	}
	return trimLabel(ext[5:16])
}

const dirEntryLen = 32

// rootLabel finds the entry whose attributes are exactly "volume label".
func rootLabel(dir []byte) (string, bool) {
	for ; len(dir) >= dirEntryLen && dir[0] != 0; dir = dir[dirEntryLen:] {
		const deleted, attrLabel, attrMask = 0xE5, 0x08, 0x3F // long name entries have 0x0F
		if dir[0] != deleted && dir[11]&attrMask&^0x20 == attrLabel {
			return trimLabel(dir[:11]), true
		}
	}
	return "", false
}

func trimLabel(b []byte) string { return strings.TrimRight(string(b), " \x00") }

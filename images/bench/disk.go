package bench

import (
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"

	"github.com/diskfs/go-diskfs"
	"github.com/diskfs/go-diskfs/disk"
	"github.com/diskfs/go-diskfs/filesystem"
)

// Label is the volume label by which a node knows its state partition.
const Label = "REVEILLE"

// diskSize is for a state partition: room for crash bundles; the file is sparse.
// FAT32 wants 65,525 clusters, which are 32 MiB at 512 bytes each.
const diskSize = 64 << 20

// MakeDisk makes a disk image that is one FAT file system with that label and
// those files, given by their path.
func MakeDisk(image, label string, files map[string][]byte) error {
	d, err := diskfs.Create(image, diskSize, diskfs.SectorSizeDefault)
	if err != nil {
		return fmt.Errorf("make disk: %w", err)
	}
	defer d.Close()
	fat, err := d.CreateFilesystem(disk.FilesystemSpec{FSType: filesystem.TypeFat32, VolumeLabel: label})
	if err != nil {
		return fmt.Errorf("make disk: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := writeFile(fat, name, files[name]); err != nil {
			return fmt.Errorf("make disk: %w", err)
		}
	}
	return nil
}

// ReadDisk reads a file of a disk image. The node must be off.
func ReadDisk(image, name string) ([]byte, error) {
	var content []byte
	err := withDisk(image, diskfs.ReadOnly, func(fat filesystem.FileSystem) error {
		f, err := fat.OpenFile(name, os.O_RDONLY)
		if err != nil {
			return err
		}
		defer f.Close()
		content, err = io.ReadAll(f)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read %s from disk: %w", name, err)
	}
	return content, nil
}

// WriteDisk writes a file of a disk image. The node must be off.
func WriteDisk(image, name string, content []byte) error {
	err := withDisk(image, diskfs.ReadWrite, func(fat filesystem.FileSystem) error {
		return writeFile(fat, name, content)
	})
	if err != nil {
		return fmt.Errorf("write %s to disk: %w", name, err)
	}
	return nil
}

func withDisk(image string, mode diskfs.OpenModeOption, do func(filesystem.FileSystem) error) error {
	d, err := diskfs.Open(image, diskfs.WithOpenMode(mode))
	if err != nil {
		return err
	}
	defer d.Close()
	fat, err := d.GetFilesystem(0)
	if err != nil {
		return err
	}
	return do(fat)
}

func writeFile(fat filesystem.FileSystem, name string, content []byte) error {
	if dir := path.Dir(name); dir != "." && dir != "/" {
		if err := fat.Mkdir(dir); err != nil {
			return fmt.Errorf("make %s: %w", dir, err)
		}
	}
	f, err := fat.OpenFile(name, os.O_CREATE|os.O_RDWR|os.O_TRUNC)
	if err != nil {
		return fmt.Errorf("make %s: %w", name, err)
	}
	defer f.Close()
	if _, err := f.Write(content); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// FillDisk leaves so many bytes of a disk image free: all other free clusters
// become bad ones. The node must be off. The offsets are those of a FAT32 boot
// sector (Microsoft's FAT specification, section 3).
func FillDisk(image string, leave int) error {
	f, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("fill disk: %w", err)
	}
	defer f.Close()
	boot := make([]byte, 512)
	if _, err := f.ReadAt(boot, 0); err != nil {
		return fmt.Errorf("fill disk: %w", err)
	}
	sector := int64(binary.LittleEndian.Uint16(boot[11:]))
	cluster := sector * int64(boot[13])
	reserved, copies := int64(binary.LittleEndian.Uint16(boot[14:])), int64(boot[16])
	size := int64(binary.LittleEndian.Uint32(boot[36:]))
	sectors := int64(binary.LittleEndian.Uint32(boot[32:]))
	table := make([]byte, size*sector)
	if _, err := f.ReadAt(table, reserved*sector); err != nil {
		return fmt.Errorf("fill disk: %w", err)
	}
	const bad = 0x0ffffff7
	entries := min((sectors-reserved-copies*size)*sector/cluster+2, int64(len(table))/4)
	free := int64(0)
	for c := int64(2); c < entries; c++ { // the first two are of no cluster
		if entry := table[4*c:]; binary.LittleEndian.Uint32(entry) == 0 {
			if free++; free > int64(leave)/cluster {
				binary.LittleEndian.PutUint32(entry, bad)
			}
		}
	}
	for i := range copies {
		if _, err := f.WriteAt(table, (reserved+i*size)*sector); err != nil {
			return fmt.Errorf("fill disk: %w", err)
		}
	}
	return nil
}

package images

import (
	"bytes"
	"debug/elf"
	"fmt"
	"strings"

	"reveille/boot/modules"
)

// ParseModinfo reads what a module (an ELF object) says about itself in its
// .modinfo section, NUL-separated "key=value" (include/linux/moduleparam.h).
// The result has the name if the module gives it, and no path.
func ParseModinfo(object []byte) (modules.Module, error) {
	f, err := elf.NewFile(bytes.NewReader(object))
	if err != nil {
		return modules.Module{}, fmt.Errorf("parse module: %w", err)
	}
	section := f.Section(".modinfo")
	if section == nil {
		return modules.Module{}, fmt.Errorf("parse module: no .modinfo section")
	}
	info, err := section.Data()
	if err != nil {
		return modules.Module{}, fmt.Errorf("parse module: %w", err)
	}
	var m modules.Module
	for _, kv := range strings.Split(string(info), "\x00") {
		key, value, _ := strings.Cut(kv, "=")
		switch key {
		case "name":
			m.Name = modules.CanonicalName(value)
		case "depends":
			m.Depends = append(m.Depends, canonical(strings.FieldsFunc(value, func(r rune) bool { return r == ',' }))...)
		case "softdep":
			m.Soft = append(m.Soft, canonical(softBefore(value))...)
		case "alias":
			// A blank would break the index's lines, and no bus has one in a modalias.
			if value != "" && !strings.ContainsAny(value, " \n") {
				m.Aliases = append(m.Aliases, value)
			}
		}
	}
	return m, nil
}

// softBefore takes the names after "pre:" from "pre: a b post: c" (modprobe.d(5)).
// What comes after is for features that a node does not use.
func softBefore(value string) []string {
	var names []string
	before := false
	for _, word := range strings.Fields(value) {
		switch word {
		case "pre:", "post:":
			before = word == "pre:"
		default:
			if before {
				names = append(names, word)
			}
		}
	}
	return names
}

func canonical(names []string) []string {
	for i, n := range names {
		names[i] = modules.CanonicalName(n)
	}
	return names
}

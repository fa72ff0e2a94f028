package proc

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// account is who a service runs as.
type account struct {
	uid, gid int
	groups   []int // supplementary
}

// findAccount resolves names and numbers by the text of passwd(5) and group(5).
// A number that they do not list is a user without a name, whose group has the
// same number; no user is root, who needs no entry.
func findAccount(user, group string, passwd, groups []byte) (account, error) {
	var a account
	name := user
	switch entry, found := findUser(passwd, user); {
	case user == "":
	case found:
		a, name = entry.account, entry.name
	case user == "root":
	default:
		id, err := strconv.ParseUint(user, 10, 32)
		if err != nil {
			return a, fmt.Errorf("set user %s: not found", user)
		}
		a.uid, a.gid = int(id), int(id)
	}
	for _, g := range entries(groups, 4) {
		if id, err := strconv.ParseUint(g[2], 10, 32); err == nil && user != "" && listed(g[3], name) {
			a.groups = append(a.groups, int(id))
		}
	}
	if group == "" {
		return a, nil
	}
	gid, found := findGroup(groups, group)
	if !found {
		return a, fmt.Errorf("set group %s: not found", group)
	}
	a.gid = gid
	return a, nil
}

// FindUser is the number of a user and of its group by the text of passwd(5).
func FindUser(user string, passwd []byte) (uid, gid int, err error) {
	a, err := findAccount(user, "", passwd, nil)
	return a.uid, a.gid, err
}

type namedAccount struct {
	name string
	account
}

func findUser(passwd []byte, user string) (namedAccount, bool) {
	for _, f := range entries(passwd, 4) {
		if f[0] != user && f[2] != user {
			continue
		}
		uid, noUID := strconv.ParseUint(f[2], 10, 32)
		gid, noGID := strconv.ParseUint(f[3], 10, 32)
		if noUID == nil && noGID == nil {
			return namedAccount{f[0], account{uid: int(uid), gid: int(gid)}}, true
		}
	}
	return namedAccount{}, false
}

func findGroup(groups []byte, group string) (int, bool) {
	for _, f := range entries(groups, 3) {
		if f[0] == group || f[2] == group {
			if id, err := strconv.ParseUint(f[2], 10, 32); err == nil {
				return int(id), true
			}
		}
	}
	id, err := strconv.ParseUint(group, 10, 32)
	return int(id), err == nil
}

// entries are the lines of such a file that have at least so many fields.
func entries(text []byte, least int) (all [][]string) {
	for line := range bytes.Lines(text) {
		if f := strings.Split(strings.TrimSuffix(string(line), "\n"), ":"); len(f) >= least {
			all = append(all, f)
		}
	}
	return all
}

func listed(members, name string) bool {
	for m := range strings.SplitSeq(members, ",") {
		if m == name && name != "" {
			return true
		}
	}
	return false
}

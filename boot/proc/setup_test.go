package proc

import (
	"fmt"
	"testing"
)

const (
	testPasswd = "root:x:0:0:root:/root:/bin/sh\netcd:x:101:102::/var/lib/etcd:/bin/false\nbroken\n"
	testGroup  = "root:x:0:\netcd:x:102:\ndisk:x:6:root,etcd\nkvm:x:7:etcd\n"
)

func TestFindAccount(t *testing.T) {
	for _, c := range []struct{ user, group, want string }{
		{"", "", "{0 0 []} <nil>"},
		{"root", "", "{0 0 [6]} <nil>"},
		{"etcd", "", "{101 102 [6 7]} <nil>"},
		{"101", "", "{101 102 [6 7]} <nil>"},
		{"etcd", "disk", "{101 6 [6 7]} <nil>"},
		{"", "kvm", "{0 7 []} <nil>"},
		{"1000", "", "{1000 1000 []} <nil>"},
		{"1000", "50", "{1000 50 []} <nil>"},
		{"nosuch", "", "set user nosuch: not found"},
		{"etcd", "nosuch", "set group nosuch: not found"},
		{"-1", "", "set user -1: not found"},
	} {
		a, err := findAccount(c.user, c.group, []byte(testPasswd), []byte(testGroup))
		got := fmt.Sprint(a, " ", err)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%q, %q: %s, want %s", c.user, c.group, got, c.want)
		}
	}
	if a, err := findAccount("root", "", nil, nil); err != nil || a.uid != 0 {
		t.Errorf("root without files: %v, %v", a, err)
	}
}

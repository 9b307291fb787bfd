package authn

import (
	"crypto/sha256"
	"testing"
)

// FuzzTokenFile parses token files, and checks that users and groups have names.
func FuzzTokenFile(f *testing.F) {
	for _, data := range []string{"", "t,u,1\n", "t,u,1,\"a,b, ,c\"\n", "t,u\n", ",u,1\n", "t,,1\n", "\"t", "t,u,1,a,b\r\n", "#t,u,1\n", "t,u,1\nt,v,2\n", "\xff,\xff,\xff"} {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		users, err := parseTokens(data)
		if err != nil && users != nil {
			t.Errorf("%q: got both users %v and error %v", data, users, err)
		}
		if user, ok := users[sha256.Sum256(nil)]; ok {
			t.Errorf("%q: the empty token belongs to %v", data, user)
		}
		for _, user := range users {
			if user.Name == "" {
				t.Errorf("%q: a user without a name", data)
			}
			for _, group := range user.Groups {
				if group == "" {
					t.Errorf("%q: %v has a group without a name", data, user)
				}
			}
		}
	})
}

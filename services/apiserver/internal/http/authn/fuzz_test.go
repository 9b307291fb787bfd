package authn

import (
	"crypto/sha256"
	"testing"
)

// FuzzTokenFile reads token files, and checks that no user comes of nothing.
func FuzzTokenFile(f *testing.F) {
	for _, data := range []string{"", "t,u,1\n", "t,u,1,\"a,b, ,c\"\n", "t,u\n", ",u,1\n", "t,,1\n", "\"t", "t,u,1,a,b\r\n", "#t,u,1\n", "t,u,1\nt,v,2\n", "\xff,\xff,\xff"} {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		users, err := parseTokens(data)
		if err != nil && users != nil {
			t.Errorf("%q: %v and %v", data, users, err)
		}
		if user, ok := users[sha256.Sum256(nil)]; ok {
			t.Errorf("%q: without a token one is %v", data, user)
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

package authn

import (
	"crypto/sha256"
	"encoding/csv"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// TokenFile knows bearer tokens from a CSV file in kube-apiserver's format: token, user, uid
// and optionally a quoted list of groups. It reads the file again when it has changed.
type TokenFile struct {
	path string

	mu      sync.Mutex
	changed time.Time
	size    int64
	users   map[[sha256.Size]byte]User
}

// NewTokenFile reads the file.
func NewTokenFile(path string) (*TokenFile, error) {
	f := &TokenFile{path: path}
	if err := f.reload(); err != nil {
		return nil, err
	}
	return f, nil
}

// Lookup finds the user of a token; false if it is none of the file's. An error means that
// the file has changed and cannot be read: what it said before still counts.
func (f *TokenFile) Lookup(token string) (User, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.reload()
	// Looking up a digest tells a guesser nothing by the time that it takes.
	user, ok := f.users[sha256.Sum256([]byte(token))]
	return user, ok, err
}

func (f *TokenFile) reload() error {
	info, err := os.Stat(f.path)
	if err != nil {
		return fmt.Errorf("reading the token file: %w", err)
	}
	if info.ModTime().Equal(f.changed) && info.Size() == f.size {
		return nil
	}
	data, err := os.ReadFile(f.path)
	if err != nil {
		return fmt.Errorf("reading the token file: %w", err)
	}
	users, err := parseTokens(string(data))
	if err != nil {
		return fmt.Errorf("reading the token file %s: %w; each line is token,user,uid,\"group1,group2\"", f.path, err)
	}
	f.users, f.changed, f.size = users, info.ModTime(), info.Size()
	return nil
}

func parseTokens(text string) (map[[sha256.Size]byte]User, error) {
	reader := csv.NewReader(strings.NewReader(text))
	reader.FieldsPerRecord = -1
	records, err := reader.ReadAll()
	if err != nil {
		return nil, err
	}
	users := make(map[[sha256.Size]byte]User, len(records))
	for i, record := range records {
		if len(record) < 3 {
			return nil, fmt.Errorf("line %d has %d fields, at least 3 are needed", i+1, len(record))
		}
		if record[0] == "" || record[1] == "" {
			return nil, fmt.Errorf("line %d has no token or no user", i+1)
		}
		user := User{Name: record[1], UID: record[2]}
		if len(record) > 3 {
			for group := range strings.SplitSeq(record[3], ",") {
				if group = strings.TrimSpace(group); group != "" {
					user.Groups = append(user.Groups, group)
				}
			}
		}
		users[sha256.Sum256([]byte(record[0]))] = user
	}
	return users, nil
}

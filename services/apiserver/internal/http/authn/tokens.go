package authn

import (
	"context"
	"crypto/sha256"
	"encoding/csv"
	"fmt"
	"log/slog"
	"strings"
)

// TokenFile authenticates the bearer tokens in a CSV file of kube-apiserver's format: token, user,
// uid and optionally a quoted list of groups. Unlike in Kubernetes, the file is read again when it
// changes.
type TokenFile struct {
	audiences []string
	file      *reloading[map[[sha256.Size]byte]User]
}

// NewTokenFile reads the file. audiences are the API's own, for which its tokens are meant.
func NewTokenFile(path string, audiences []string, log *slog.Logger) (*TokenFile, error) {
	file, err := newReloading(path, "the token file", log, parseTokens)
	if err != nil {
		return nil, err
	}
	return &TokenFile{audiences: audiences, file: file}, nil
}

// Token returns the user of a token.
func (f *TokenFile) Token(_ context.Context, token string, audiences []string) (Result, bool, error) {
	both := audienceless(f.audiences, audiences)
	// The time to look up a digest reveals nothing about the tokens.
	user, ok := f.file.get()[sha256.Sum256([]byte(token))]
	if !ok || len(both) == 0 {
		return Result{}, false, nil
	}
	return Result{User: user, Audiences: both}, true, nil
}

func parseTokens(data []byte) (map[[sha256.Size]byte]User, error) {
	reader := csv.NewReader(strings.NewReader(string(data)))
	reader.FieldsPerRecord = -1
	records, err := reader.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%w; each line is token,user,uid,\"group1,group2\"", err)
	}
	users := make(map[[sha256.Size]byte]User, len(records))
	for i, record := range records {
		if len(record) < 3 {
			return nil, fmt.Errorf("record %d must have at least 3 columns (token, user name, user uid), found %d", i+1, len(record))
		}
		if record[0] == "" || record[1] == "" {
			return nil, fmt.Errorf("record %d has no token or no user; each line is token,user,uid,\"group1,group2\"", i+1)
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

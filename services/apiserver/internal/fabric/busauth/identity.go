package busauth

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
)

// maxIdentity is the maximum length of an identity in bytes. It is part of subjects, and a
// nats-server accepts lines of 4 KB.
const maxIdentity = 2 << 10

// identity is the part of a user that authorization needs. It is encoded in the subject, which NATS
// enforces, so any apiserver can answer a client, whichever apiserver let it in. Only NATS needs to
// be trusted.
type identity struct {
	Name   string   `json:"n"`
	UID    string   `json:"u,omitempty"`
	Groups []string `json:"g,omitempty"`
}

// Identity encodes a user as one token of a subject. It fails for a user in too many groups.
func Identity(user authn.User) (string, error) {
	data, err := json.Marshal(identity{Name: user.Name, UID: user.UID, Groups: user.Groups})
	if err != nil {
		return "", fmt.Errorf("encoding the user %q: %w", user.Name, err)
	}
	text := base64.RawURLEncoding.EncodeToString(data)
	if len(text) > maxIdentity {
		return "", fmt.Errorf("the user %q is in too many groups to be encoded in a subject", user.Name)
	}
	return text, nil
}

// User decodes the output of Identity, with or without a host after it.
func User(text string) (authn.User, error) {
	text = subject.Client{Identity: text}.User()
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(text) > maxIdentity {
		return authn.User{}, errors.New("the subject of the request names no user")
	}
	var found identity
	if err := json.Unmarshal(data, &found); err != nil || found.Name == "" {
		return authn.User{}, errors.New("the subject of the request names no user")
	}
	return authn.User{Name: found.Name, UID: found.UID, Groups: found.Groups}, nil
}

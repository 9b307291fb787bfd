package busauth

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
)

// maxIdentity is the maximum length of an identity in bytes. It is part of subjects, and a
// nats-server accepts lines of 4 KB.
const maxIdentity = 2 << 10

var errNoUser = errors.New("the subject of the request names no user")

// identity is the part of a user that authorization needs. It is encoded in the subject, which NATS
// enforces, so any apiserver can answer a client, whichever apiserver let it in. Only NATS needs to
// be trusted.
type identity struct {
	Name   string   `json:"n"`
	UID    string   `json:"u,omitempty"`
	Groups []string `json:"g,omitempty"`
	// Credential, Authority and Ends (in seconds since 1970) are those of the client certificate; empty
	// for a client that presented none.
	Credential []string `json:"c,omitempty"`
	Authority  string   `json:"a,omitempty"`
	Ends       int64    `json:"e,omitempty"`
}

// Identity encodes the client of a connection as one token of a subject. It fails for a user in too
// many groups.
func Identity(client authn.Connection) (string, error) {
	user := client.User
	encoded := identity{Name: user.Name, UID: user.UID, Groups: user.Groups}
	if client.Certificate != (authn.Certified{}) {
		encoded.Credential = user.Extra[authn.ExtraCredentialID]
		encoded.Authority, encoded.Ends = client.Certificate.Authority, client.Certificate.Ends.Unix()
	}
	data, err := json.Marshal(encoded)
	if err != nil {
		return "", fmt.Errorf("encoding the user %q: %w", user.Name, err)
	}
	text := base64.RawURLEncoding.EncodeToString(data)
	if len(text) > maxIdentity {
		return "", fmt.Errorf("the user %q is in too many groups to be encoded in a subject", user.Name)
	}
	return text, nil
}

// Client decodes the output of Identity, with or without a host after it.
func Client(text string) (authn.Connection, error) {
	text = subject.Client{Identity: text}.User()
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(text) > maxIdentity {
		return authn.Connection{}, errNoUser
	}
	var found identity
	if err := json.Unmarshal(data, &found); err != nil || found.Name == "" {
		return authn.Connection{}, errNoUser
	}
	client := authn.Connection{User: authn.User{Name: found.Name, UID: found.UID, Groups: found.Groups}}
	if found.Authority != "" {
		client.Certificate = authn.Certified{Authority: found.Authority, Ends: time.Unix(found.Ends, 0)}
	}
	if len(found.Credential) > 0 {
		client.User.Extra = map[string][]string{authn.ExtraCredentialID: found.Credential}
	}
	return client, nil
}

// User decodes the user in the output of Identity.
func User(text string) (authn.User, error) {
	client, err := Client(text)
	return client.User, err
}

package busauth

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
)

// maxIdentity is the longest identity in bytes. It is part of subjects, and a nats-server takes
// lines of 4 KB.
const maxIdentity = 2 << 10

// identity is what of a user decides what he may do. That is all in the subject, so that any
// apiserver can answer him, whichever let him in; nobody but NATS, who holds him to it, needs
// to trust it.
type identity struct {
	Name   string   `json:"n"`
	UID    string   `json:"u,omitempty"`
	Groups []string `json:"g,omitempty"`
}

// Identity spells a user as one token of a subject. It fails for who is in too many groups.
func Identity(user authn.User) (string, error) {
	data, err := json.Marshal(identity{Name: user.Name, UID: user.UID, Groups: user.Groups})
	if err != nil {
		return "", fmt.Errorf("spelling the user %q: %w", user.Name, err)
	}
	text := base64.RawURLEncoding.EncodeToString(data)
	if len(text) > maxIdentity {
		return "", fmt.Errorf("the user %q is in too many groups to be spelled in a subject", user.Name)
	}
	return text, nil
}

// User reads what Identity wrote, with or without a host behind it.
func User(text string) (authn.User, error) {
	text = bus.Asker{Identity: text}.User()
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(text) > maxIdentity {
		return authn.User{}, errors.New("the subject of the request names no user")
	}
	var who identity
	if err := json.Unmarshal(data, &who); err != nil || who.Name == "" {
		return authn.User{}, errors.New("the subject of the request names no user")
	}
	return authn.User{Name: who.Name, UID: who.UID, Groups: who.Groups}, nil
}

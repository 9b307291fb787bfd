package callout

import (
	"fmt"

	"github.com/nats-io/nkeys"
)

// Keys are what the apiservers share: the key that signs what clients may do, and that of the
// user as which they connect to NATS themselves. NATS is told only the public halves.
type Keys struct {
	issuer, user             nkeys.KeyPair
	userSeed                 []byte
	publicIssuer, publicUser string
}

// Auth are the public halves, which NATS is told.
type Auth struct {
	// Issuer is the key by which the apiservers sign what a client may do, User that of the
	// user as which they connect.
	Issuer, User string
}

// TLS are PEM files: the server's certificate and its key, and the authorities of clients'
// certificates, without which clients are not asked for one. A client may have none.
type TLS struct{ CertFile, KeyFile, ClientCAFile string }

// NewIssuer makes a key that signs, as text to be kept secret.
func NewIssuer() ([]byte, error) { return seed(nkeys.CreateAccount()) }

// NewUser makes the key of the apiservers' user, as text to be kept secret.
func NewUser() ([]byte, error) { return seed(nkeys.CreateUser()) }

func seed(pair nkeys.KeyPair, err error) ([]byte, error) {
	if err == nil {
		var text []byte
		if text, err = pair.Seed(); err == nil {
			return text, nil
		}
	}
	return nil, fmt.Errorf("making a key for NATS: %w", err)
}

// ParseKeys reads what NewIssuer and NewUser made.
func ParseKeys(issuer, user []byte) (*Keys, error) {
	k := &Keys{userSeed: user}
	var err error
	if k.issuer, k.publicIssuer, err = parse(issuer, nkeys.PrefixByteAccount); err != nil {
		return nil, fmt.Errorf("reading the key that signs rights at NATS: %w", err)
	}
	if k.user, k.publicUser, err = parse(user, nkeys.PrefixByteUser); err != nil {
		return nil, fmt.Errorf("reading the key of the apiservers' user at NATS: %w", err)
	}
	return k, nil
}

func parse(text []byte, want nkeys.PrefixByte) (nkeys.KeyPair, string, error) {
	kind, _, err := nkeys.DecodeSeed(text)
	if err != nil {
		return nil, "", err
	}
	if kind != want {
		return nil, "", fmt.Errorf("it is a key of the kind %v, not %v", kind, want)
	}
	pair, err := nkeys.FromSeed(text)
	if err != nil {
		return nil, "", err
	}
	public, err := pair.PublicKey()
	return pair, public, err
}

// Issuer is the public key by which NATS recognises what the apiservers signed.
func (k *Keys) Issuer() string { return k.publicIssuer }

// User is the public key by which NATS recognises the apiservers.
func (k *Keys) User() string { return k.publicUser }

// Auth gives both public keys.
func (k *Keys) Auth() *Auth { return &Auth{Issuer: k.publicIssuer, User: k.publicUser} }

// UserSeed is what an apiserver shows to NATS: bus.Config.Seed.
func (k *Keys) UserSeed() []byte { return k.userSeed }

// Configuration is the part of a nats-server's configuration file that has it ask the
// apiservers who its clients are. It holds nothing secret.
func (k *Keys) Configuration() []byte {
	return fmt.Appendf(nil, `# Who may connect is decided by the apiservers. Include this file in the configuration of
# every nats-server of the plane. It holds public keys only.
authorization {
  # How long, in seconds, the apiservers may take to say who a client is.
  timeout: 2
  users: [ { nkey: %s } ]
  auth_callout {
    issuer: %s
    auth_users: [ %s ]
  }
}
`, k.publicUser, k.publicIssuer, k.publicUser)
}

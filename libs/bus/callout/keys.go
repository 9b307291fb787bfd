package callout

import (
	"crypto/sha256"
	"fmt"

	"github.com/nats-io/nkeys"
)

// Keys are shared by the apiservers: the key that signs clients' rights, the key of the user as
// which they connect to NATS, and that of the user as which they administer it. NATS knows only the
// public halves.
type Keys struct {
	issuer                                 nkeys.KeyPair
	userSeed, systemSeed                   []byte
	publicIssuer, publicUser, publicSystem string
}

// Auth holds the public halves, which NATS knows.
type Auth struct {
	// Issuer is the public key that verifies clients' rights; User is that of the user as which the
	// apiservers connect, and System that of their user in NATS's system account.
	Issuer, User, System string
}

// TLS names PEM files: the server's certificate, its key, and the CA certificates for client
// certificates. Without the latter the server requests no client certificate. With it, a client
// certificate is still optional.
type TLS struct{ CertFile, KeyFile, ClientCAFile string }

// NewIssuer generates a signing key, as text that must be kept secret.
func NewIssuer() ([]byte, error) { return seed(nkeys.CreateAccount()) }

// NewUser generates the key of the apiservers' user, as text that must be kept secret.
func NewUser() ([]byte, error) { return seed(nkeys.CreateUser()) }

func seed(pair nkeys.KeyPair, err error) ([]byte, error) {
	if err == nil {
		var text []byte
		if text, err = pair.Seed(); err == nil {
			return text, nil
		}
	}
	return nil, fmt.Errorf("generating a key for NATS: %w", err)
}

// ParseKeys parses keys that NewIssuer and NewUser generated.
func ParseKeys(issuer, user []byte) (*Keys, error) {
	k := &Keys{userSeed: user}
	var err error
	if k.issuer, k.publicIssuer, err = parse(issuer, nkeys.PrefixByteAccount); err != nil {
		return nil, fmt.Errorf("reading the key that signs rights at NATS: %w", err)
	}
	if _, k.publicUser, err = parse(user, nkeys.PrefixByteUser); err == nil {
		k.systemSeed, k.publicSystem, err = systemUser(user)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the key of the apiservers' user at NATS: %w", err)
	}
	return k, nil
}

// systemUser derives the key of the user in the system account from that of the apiservers' user, so
// that there is no further secret to distribute. A user of NATS belongs to one account.
func systemUser(user []byte) (text []byte, public string, err error) {
	raw, err := nkeys.FromSeed(user)
	if err != nil {
		return nil, "", err
	}
	private, err := raw.PrivateKey()
	if err != nil {
		return nil, "", err
	}
	digest := sha256.Sum256(append([]byte("garboard: user of the system account of NATS\x00"), private...))
	pair, err := nkeys.FromRawSeed(nkeys.PrefixByteUser, digest[:])
	if err != nil {
		return nil, "", err
	}
	if text, err = pair.Seed(); err != nil {
		return nil, "", err
	}
	public, err = pair.PublicKey()
	return text, public, err
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

// Issuer returns the public key by which NATS verifies the apiservers' signatures.
func (k *Keys) Issuer() string { return k.publicIssuer }

// User returns the public key by which NATS recognises the apiservers.
func (k *Keys) User() string { return k.publicUser }

// Auth returns the public keys.
func (k *Keys) Auth() *Auth {
	return &Auth{Issuer: k.publicIssuer, User: k.publicUser, System: k.publicSystem}
}

// UserSeed returns the private key that an apiserver presents to NATS: bus.Config.Seed.
func (k *Keys) UserSeed() []byte { return k.userSeed }

// SystemSeed returns the private key of the apiservers' user in the system account of NATS, which may
// list and end the connections of all clients.
func (k *Keys) SystemSeed() []byte { return k.systemSeed }

// Configuration returns the part of a nats-server's configuration file that makes it ask the
// apiservers about its clients. It contains no secrets.
func (k *Keys) Configuration() []byte {
	return fmt.Appendf(nil, `# The apiservers decide which clients may connect. Include this file in the configuration of
# every nats-server of the plane. It holds public keys only.
accounts {
  # The apiservers end the connections of clients whose credential is no longer valid.
  $SYS { users: [ { nkey: %s } ] }
}
authorization {
  # How long, in seconds, the apiservers may take to identify a client.
  timeout: 2
  users: [ { nkey: %s } ]
  auth_callout {
    issuer: %s
    auth_users: [ %s, %s ]
  }
}
`, k.publicSystem, k.publicUser, k.publicIssuer, k.publicUser, k.publicSystem)
}

package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/tokenkey"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn/externalsigner"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn/openid"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn/review"
	"github.com/garboard/garboard/services/apiserver/internal/http/rest"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
)

// prepareSigner creates the client of the process that signs service account tokens, if there is one.
func (p *plane) prepareSigner(ctx context.Context) error {
	endpoint, limit := p.cfg.Authentication.SigningEndpoint, p.cfg.Authentication.MaxTokenLife
	if endpoint == "" {
		return nil
	}
	signer, err := externalsigner.New(externalsigner.Config{Endpoint: endpoint, Registerer: p.cfg.Registerer, Logger: p.cfg.Logger})
	if err != nil {
		return err
	}
	p.gate.Waits("signer", "the signer of service account tokens at "+endpoint+" has not answered yet")
	if err := signer.Start(ctx); err != nil {
		return errors.Join(err, signer.Close())
	}
	if longest := signer.MaxLife(); limit > longest {
		return errors.Join(fmt.Errorf("the maximum lifetime of service account tokens, %v, is above the %v of the signer at %s", limit, longest, endpoint), signer.Close())
	}
	p.signer = signer
	return nil
}

// runSigner keeps the keys of the process that signs service account tokens up to date, if there is one.
func (p *plane) runSigner(ctx context.Context) error {
	if p.signer == nil {
		<-ctx.Done()
		return nil
	}
	return p.signer.Run(ctx)
}

func (p *plane) closeSigner(context.Context) error {
	if p.signer == nil {
		return nil
	}
	return p.signer.Close()
}

// serviceAccounts returns the issuer and verifier of service account tokens.
func (p *plane) serviceAccounts() (*authn.ServiceAccounts, error) {
	cfg := p.cfg.Authentication
	accounts := authn.ServiceAccountsConfig{
		Issuers: cfg.Issuers, Audiences: cfg.Audiences, MaxLife: cfg.MaxTokenLife, NoExtension: cfg.NoTokenExtension, Objects: p.access.Objects(),
	}
	if p.signer != nil {
		accounts.Keys, accounts.MaxExtendedLife = p.signer, p.signer.MaxLife()
		if accounts.MaxLife == 0 {
			accounts.MaxLife = p.signer.MaxLife()
		}
		return authn.NewServiceAccounts(accounts)
	}
	keys, err := p.localKeys()
	if err != nil {
		return nil, err
	}
	accounts.Keys = keys
	return authn.NewServiceAccounts(accounts)
}

// localKeys returns this server's key of service account tokens, and those of the key files.
func (p *plane) localKeys() (*authn.LocalKeys, error) {
	var further []tokenkey.Public
	for _, path := range p.cfg.Authentication.KeyFiles {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading keys of service account tokens: %w", err)
		}
		keys, err := authn.ParsePublicKeys(data)
		if err != nil {
			return nil, fmt.Errorf("reading keys of service account tokens from %s: %w", path, err)
		}
		further = append(further, keys...)
	}
	return authn.NewLocalKeys(p.keys.ServiceAccounts, further...)
}

// authenticator returns the authenticator of requests, which tries credentials in Kubernetes'
// order.
func (p *plane) authenticator(accounts *authn.ServiceAccounts, authorities *authn.Authorities, proxies *authn.FrontProxy) (*authn.Authenticator, error) {
	cfg := p.cfg.Authentication
	var tokens []authn.Tokens
	for _, path := range []string{p.keys.TokenFile, cfg.TokenFile} {
		if path == "" {
			continue
		}
		file, err := authn.NewTokenFile(path, cfg.Audiences, p.cfg.Logger)
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, file)
	}
	tokens = append(tokens, authn.NewSecretTokens(authn.SecretTokensConfig{
		Accounts: accounts, Used: p.markUsed, Logger: p.cfg.Logger, Registerer: p.cfg.Registerer,
	}), accounts)
	var bootstrap *authn.BootstrapTokens
	if !cfg.NoBootstrapTokens {
		secrets := p.feeds.Of(scheme.For[*corev1.Secret](p.table))
		bootstrap = authn.NewBootstrapTokens(cfg.Audiences, func(namespace, name string) (*corev1.Secret, bool) {
			obj, ok := secrets.Cached(namespace, name)
			if !ok {
				return nil, false
			}
			secret, ok := obj.(*corev1.Secret)
			return secret, ok
		}, p.cfg.Logger)
		tokens = append(tokens, bootstrap)
	}
	return authn.New(authn.Config{
		ClientCAs: authorities, FrontProxy: proxies, Tokens: tokens, Bootstrap: bootstrap, Audiences: cfg.Audiences,
		Anonymous:  authn.AnonymousRule{Off: cfg.NoAnonymous, Paths: cfg.AnonymousPaths},
		Registerer: p.cfg.Registerer,
	}), nil
}

// markUsed sets the label of a Secret that says on which day its token was last used, unless the Secret
// was replaced meanwhile.
func (p *plane) markUsed(ctx context.Context, secret *corev1.Secret, day string) error {
	_, err := p.registry.Resource(scheme.For[*corev1.Secret](p.table)).Update(ctx, secret.Namespace, secret.Name, func(current scheme.Object) (scheme.Object, error) {
		if current.GetUID() != secret.UID || current.GetLabels()[authn.LastUsedLabel] == day {
			return current, nil
		}
		labels := maps.Clone(current.GetLabels())
		if labels == nil {
			labels = map[string]string{}
		}
		labels[authn.LastUsedLabel] = day
		next, ok := current.DeepCopyObject().(scheme.Object)
		if !ok {
			return nil, fmt.Errorf("found a %T", current)
		}
		next.SetLabels(labels)
		return next, nil
	}, registry.UpdateOptions{FieldManager: "kube-apiserver"})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// reviews returns the answers of the virtual kinds.
func (p *plane) reviews(authenticator *authn.Authenticator) map[schema.GroupVersionKind]rest.Review {
	reviews := map[schema.GroupVersionKind]rest.Review{
		authenticationv1.SchemeGroupVersion.WithKind("TokenReview"):       review.Token(authenticator),
		authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"): review.Self,
	}
	for kind, answer := range p.access.Answers() {
		reviews[kind] = rest.Review(answer)
	}
	return reviews
}

// serveOpenID serves the documents with which other programs verify service account tokens. An
// issuer that is not an https URL is valid for tokens, but the documents cannot be served for it.
func (p *plane) serveOpenID(mux *http.ServeMux, get func(http.Handler) http.Handler, accounts *authn.ServiceAccounts) {
	cfg := p.cfg.Authentication
	documents, err := openid.New(cfg.Issuers[0], cfg.KeysURI, p.address, accounts.Published)
	if err != nil {
		p.cfg.Logger.Info("the discovery document of service account tokens is not served", "err", err)
		return
	}
	mux.Handle(openid.ConfigurationPath, get(http.HandlerFunc(documents.ServeConfiguration)))
	mux.Handle(openid.KeysPath, get(http.HandlerFunc(documents.ServeKeys)))
}

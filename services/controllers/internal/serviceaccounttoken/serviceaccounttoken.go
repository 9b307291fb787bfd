// Package serviceaccounttoken writes tokens of service accounts into the Secrets of type
// kubernetes.io/service-account-token that users create for them. It deletes such a Secret when its service
// account is gone, and removes a deleted Secret from its service account's list (kubernetes,
// pkg/controller/serviceaccount, TokensController).
package serviceaccounttoken

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

const (
	name = "serviceaccount-token-controller"
	// queue is Kubernetes' name for the work queue and its metrics.
	queue   = "serviceaccount_tokens_service"
	workers = 5
	// byAccount is the index of tokens by the service account that they name.
	byAccount = "service account of token"
)

// reconciler reconciles Secrets that hold tokens.
type reconciler struct {
	signer   *Signer
	ca       []byte
	secrets  *controller.Objects[*corev1.Secret]
	accounts informer.SharedInformer[*corev1.ServiceAccount]
	writer   client.Resource[*corev1.ServiceAccount]

	mu sync.Mutex
	// gone are the tokens that were deleted in this term and may still be in the lists of their service
	// accounts, by the keys of the Secrets.
	gone map[string][]reference
}

// reference names the service account of a token.
type reference struct {
	name string
	uid  types.UID // empty until the controller has written it
}

func referenceOf(secret *corev1.Secret) reference {
	return reference{secret.Annotations[corev1.ServiceAccountNameKey], types.UID(secret.Annotations[corev1.ServiceAccountUIDKey])}
}

// New declares the controller. Tokens are signed by signer; ca is the PEM certificate that is written
// beside them.
func New(d controller.Deps, signer *Signer, ca []byte) *controller.Spec {
	r := &reconciler{
		signer: signer, ca: ca, secrets: controller.For[*corev1.Secret](d),
		accounts: informer.For[*corev1.ServiceAccount](d.Informers), writer: client.Of[*corev1.ServiceAccount](d.Client),
	}
	r.secrets.Handle = r.secretChanged
	return &controller.Spec{
		Name: name, Queue: queue, Resource: "secrets", Workers: workers, For: r.secrets,
		Watches: []controller.Watch{
			controller.Indexed(r.secrets.SharedInformer, byAccount, accountOf), controller.On(r.accounts, r.accountChanged),
		},
		Begin: func(controller.Queue) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.gone = map[string][]reference{}
		},
		Reconcile: func(ctx context.Context, key controller.Key) (reconcile.Result, error) {
			return reconcile.Result{}, r.reconcile(ctx, key)
		},
	}
}

func isToken(secret *corev1.Secret) bool { return secret.Type == corev1.SecretTypeServiceAccountToken }

func accountOf(secret *corev1.Secret) ([]string, error) {
	if account := referenceOf(secret).name; isToken(secret) && account != "" {
		return []string{informer.KeyOf(secret.Namespace, account)}, nil
	}
	return nil, nil
}

func (r *reconciler) secretChanged(q controller.Queue, old, now *corev1.Secret) {
	if old != nil && isToken(old) && (now == nil || now.UID != old.UID) {
		key := informer.KeyOf(old.Namespace, old.Name)
		r.mu.Lock()
		r.gone[key] = append(r.gone[key], referenceOf(old))
		r.mu.Unlock()
		q.Add(old)
	}
	if now != nil && isToken(now) {
		q.Add(now)
	}
}

// accountChanged asks for reconciles of the tokens of a service account that is gone, or that another one
// has replaced.
func (r *reconciler) accountChanged(q controller.Queue, old, now *corev1.ServiceAccount) {
	if old == nil || now != nil && now.UID == old.UID {
		return
	}
	secrets, err := r.secrets.Indexer().ByIndex(byAccount, informer.KeyOf(old.Namespace, old.Name))
	if err != nil {
		return // The term has added the index.
	}
	for _, secret := range secrets {
		q.Add(secret)
	}
}

func (r *reconciler) reconcile(ctx context.Context, key controller.Key) error {
	if err := r.forget(ctx, key); err != nil {
		return err
	}
	secret, found := r.secrets.Get(key)
	if !found || !isToken(secret) || referenceOf(secret).name == "" || secret.DeletionTimestamp != nil {
		return nil
	}
	account, err := r.account(ctx, secret)
	if err != nil {
		return err
	}
	if account == nil {
		return r.delete(ctx, secret)
	}
	return r.fill(ctx, account, secret)
}

// account returns the service account of a token, after asking the API for one that is not known; nil if
// there is none, or if another one has its name.
func (r *reconciler) account(ctx context.Context, secret *corev1.Secret) (*corev1.ServiceAccount, error) {
	wanted := referenceOf(secret)
	if account := r.known(secret.Namespace, wanted); account != nil {
		return account, nil
	}
	account, err := r.writer.Get(ctx, secret.Namespace, wanted.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // That there is none is an answer.
	case err != nil:
		return nil, fmt.Errorf("reading the service account %s/%s: %w", secret.Namespace, wanted.name, err)
	case wanted.uid != "" && wanted.uid != account.UID:
		return nil, nil //nolint:nilnil // As above.
	}
	return account, nil
}

// known returns a service account in the cache; nil if there is none.
func (r *reconciler) known(namespace string, wanted reference) *corev1.ServiceAccount {
	account, found := r.accounts.Indexer().GetByKey(informer.KeyOf(namespace, wanted.name))
	if !found || wanted.uid != "" && wanted.uid != account.UID {
		return nil
	}
	return account
}

func (r *reconciler) delete(ctx context.Context, secret *corev1.Secret) error {
	err := r.secrets.Client.Delete(ctx, secret.Namespace, secret.Name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(secret.UID)),
	})
	// The token is gone, or another has taken its name: this one is deleted either way.
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting the token %s/%s, which has no service account: %w", secret.Namespace, secret.Name, err)
	}
	return nil
}

// fill writes what is missing in a token's Secret. A token or a namespace that is there stays.
func (r *reconciler) fill(ctx context.Context, account *corev1.ServiceAccount, secret *corev1.Secret) error {
	outdated := len(r.ca) > 0 && !bytes.Equal(secret.Data[corev1.ServiceAccountRootCAKey], r.ca)
	nameless, empty := len(secret.Data[corev1.ServiceAccountNamespaceKey]) == 0, len(secret.Data[corev1.ServiceAccountTokenKey]) == 0
	if !outdated && !nameless && !empty {
		return nil
	}
	secret = secret.DeepCopy()
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	if outdated {
		secret.Data[corev1.ServiceAccountRootCAKey] = r.ca
	}
	if nameless {
		secret.Data[corev1.ServiceAccountNamespaceKey] = []byte(secret.Namespace)
	}
	if empty {
		token, err := r.signer.token(account, secret)
		if err != nil {
			return err
		}
		secret.Data[corev1.ServiceAccountTokenKey] = token
	}
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, corev1.ServiceAccountNameKey, account.Name)
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, corev1.ServiceAccountUIDKey, string(account.UID))
	if _, err := r.secrets.Client.Update(ctx, secret, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the token of the service account %s/%s: %w", account.Namespace, account.Name, err)
	}
	return nil
}

// forget removes deleted tokens from the lists of their service accounts.
func (r *reconciler) forget(ctx context.Context, key controller.Key) error {
	r.mu.Lock()
	gone := r.gone[key.String()]
	delete(r.gone, key.String())
	r.mu.Unlock()
	for i, of := range gone {
		if r.known(key.Namespace, of) == nil {
			continue
		}
		if err := r.unlist(ctx, key, of); err != nil {
			r.mu.Lock()
			r.gone[key.String()] = append(r.gone[key.String()], gone[i:]...)
			r.mu.Unlock()
			return err
		}
	}
	return nil
}

// unlist removes a Secret from a service account's list.
func (r *reconciler) unlist(ctx context.Context, secret controller.Key, of reference) error {
	account, err := r.writer.Get(ctx, secret.Namespace, of.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the service account %s/%s: %w", secret.Namespace, of.name, err)
	}
	listed := func(ref corev1.ObjectReference) bool { return ref.Name == secret.Name }
	if of.uid != "" && of.uid != account.UID || !slices.ContainsFunc(account.Secrets, listed) {
		return nil
	}
	account = account.DeepCopy()
	account.Secrets = slices.DeleteFunc(account.Secrets, listed)
	if _, err := r.writer.Update(ctx, account, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("removing the deleted Secret %s from the service account %s: %w", secret, of.name, err)
	}
	return nil
}

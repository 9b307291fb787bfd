package kubernetesservice

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
)

const (
	// identityLabel is on the Leases that identify apiservers; its value is the program's name.
	identityLabel = "apiserver.kubernetes.io/identity"
	// identityLife is after how many seconds without a renewal a Lease is deleted, and sweepEvery
	// how often such Leases are searched for. Both are Kubernetes' values.
	identityLife = int32(3600)
	sweepEvery   = time.Hour
)

// identity distinguishes an apiserver from the others.
type identity struct {
	hostname string
	name     string // of its Lease
	holder   string // changes with each start
}

func newIdentity(hostname string) identity {
	name := LeaseName(hostname)
	return identity{hostname: hostname, name: name, holder: name + "_" + string(uuid.NewUUID())}
}

// LeaseName returns Kubernetes' name of an apiserver, which its Lease has: the hash of the host's name and the program's name, each
// preceded by its length.
func LeaseName(hostname string) string {
	var data []byte
	for _, part := range []string{hostname, writer} {
		data = binary.BigEndian.AppendUint16(data, uint16(len(part)))
		data = append(data, part...)
	}
	sum := sha256.Sum256(data)
	return "apiserver-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
}

// renew renews the member's Lease, creating it if necessary.
func (m *Member) renew(ctx context.Context) error {
	leases := m.Registry.Resource(scheme.For[*coordinationv1.Lease](m.Table))
	renewed := func(current scheme.Object) (scheme.Object, error) {
		lease, ok := current.DeepCopyObject().(*coordinationv1.Lease)
		if !ok {
			return nil, fmt.Errorf("found a %T", current)
		}
		if lease.Labels == nil {
			lease.Labels = map[string]string{}
		}
		lease.Labels[identityLabel], lease.Labels[corev1.LabelHostname] = writer, m.identity.hostname
		if m.PeerAddress != "" {
			if lease.Annotations == nil {
				lease.Annotations = map[string]string{}
			}
			lease.Annotations[corev1.AnnotationPeerAdvertiseAddress] = m.PeerAddress
		} else {
			delete(lease.Annotations, corev1.AnnotationPeerAdvertiseAddress)
		}
		seconds, now := identityLife, metav1.NowMicro()
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = &m.identity.holder, &seconds, &now
		return lease, nil
	}
	_, err := leases.Update(ctx, metav1.NamespaceSystem, m.identity.name, renewed, registry.UpdateOptions{FieldManager: writer})
	if apierrors.IsNotFound(err) {
		var lease scheme.Object
		lease, err = renewed(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: m.identity.name}})
		if err == nil {
			_, err = leases.Create(ctx, metav1.NamespaceSystem, lease, metav1.CreateOptions{FieldManager: writer})
		}
	}
	if err != nil {
		return fmt.Errorf("writing the Lease %s: %w", m.identity.name, err)
	}
	return nil
}

// leases returns the Leases of all apiservers.
func (m *Member) leases(ctx context.Context) ([]coordinationv1.Lease, error) {
	list, err := m.Registry.Resource(scheme.For[*coordinationv1.Lease](m.Table)).
		List(ctx, metav1.NamespaceSystem, metav1.ListOptions{LabelSelector: identityLabel + "=" + writer})
	if err != nil {
		return nil, fmt.Errorf("listing the Leases of apiservers: %w", err)
	}
	found, ok := list.(*coordinationv1.LeaseList)
	if !ok {
		return nil, fmt.Errorf("listing the Leases of apiservers: found a %T", list)
	}
	return found.Items, nil
}

// Peers returns where the other apiservers are, HOST:PORT by the name of their Lease. One that died is among them
// until its Lease expires.
func (m *Member) Peers(ctx context.Context) (map[string]string, error) {
	leases, err := m.leases(ctx)
	if err != nil {
		return nil, err
	}
	peers := map[string]string{}
	for _, lease := range leases {
		address := lease.Annotations[corev1.AnnotationPeerAdvertiseAddress]
		if lease.Name == m.identity.name || address == m.PeerAddress || expired(lease.Spec, time.Now()) {
			continue
		}
		if _, err := netip.ParseAddrPort(address); err == nil {
			peers[lease.Name] = address
		}
	}
	return peers, nil
}

// sweep deletes the Leases of apiservers that have not renewed them for a long time.
func (m *Member) sweep(ctx context.Context) error {
	found, err := m.leases(ctx)
	if err != nil {
		return err
	}
	leases := m.Registry.Resource(scheme.For[*coordinationv1.Lease](m.Table))
	for _, lease := range found {
		if !expired(lease.Spec, time.Now()) {
			continue
		}
		version := lease.ResourceVersion
		_, _, err := leases.Delete(ctx, lease.Namespace, lease.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &lease.UID, ResourceVersion: &version}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("deleting the Lease %s: %w", lease.Name, err)
		}
	}
	return nil
}

// expired reports whether a Lease has expired. A Lease without a renewal time or duration has, as
// in Kubernetes.
func expired(spec coordinationv1.LeaseSpec, now time.Time) bool {
	return spec.RenewTime == nil || spec.LeaseDurationSeconds == nil ||
		spec.RenewTime.Add(time.Duration(*spec.LeaseDurationSeconds)*time.Second).Before(now)
}

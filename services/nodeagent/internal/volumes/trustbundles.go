package volumes

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"maps"
	"os"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxTrustAnchors bounds the trust bundles that one source selects, in bytes. A single one has 1 MiB at most.
const maxTrustAnchors = 16 << 20

// trustBundleFiles returns the file of the trust anchors that a source selects.
func (v *Volumes) trustBundleFiles(ctx context.Context, pod *corev1.Pod, source *corev1.ClusterTrustBundleProjection,
	mode os.FileMode) (map[string]file, error) {
	if err := checkPath(source.Path); err != nil {
		return nil, fmt.Errorf("the path of a cluster trust bundle: %w", err)
	}
	bundles, err := v.trustBundles(ctx, source)
	if err != nil {
		return nil, err
	}
	anchors, err := trustAnchors(bundles)
	if err != nil {
		return nil, err
	}
	if fsGroup(pod) != nil {
		mode = 0o600 // The group's rights are added with the group.
	}
	return map[string]file{source.Path: {data: anchors, mode: mode}}, nil
}

// trustBundles returns the bundles that a source selects: one by its name, or those of a signer with the labels; without
// a selector of labels, none. No bundle is an error unless the source is optional.
func (v *Volumes) trustBundles(ctx context.Context,
	source *corev1.ClusterTrustBundleProjection) ([]*certificatesv1.ClusterTrustBundle, error) {
	if source.Name != nil {
		bundle, err := v.cfg.References.TrustBundle(ctx, *source.Name)
		if apierrors.IsNotFound(err) && isTrue(source.Optional) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return []*certificatesv1.ClusterTrustBundle{bundle}, nil
	}
	if source.SignerName == nil {
		return nil, fmt.Errorf("the source %s names neither a cluster trust bundle nor a signer", source.Path)
	}
	var bundles []*certificatesv1.ClusterTrustBundle
	if source.LabelSelector != nil {
		selector, err := metav1.LabelSelectorAsSelector(source.LabelSelector)
		if err != nil {
			return nil, fmt.Errorf("the labels of the cluster trust bundles of signer %s: %w", *source.SignerName, err)
		}
		if bundles, err = v.cfg.References.TrustBundles(ctx, *source.SignerName, selector); err != nil {
			return nil, err
		}
	}
	if len(bundles) == 0 && !isTrue(source.Optional) {
		return nil, fmt.Errorf("no cluster trust bundle of signer %s has the labels %s", *source.SignerName, metav1.FormatLabelSelector(source.LabelSelector))
	}
	return bundles, nil
}

// trustAnchors returns the certificates of bundles, each once, in an order that depends on nothing else.
func trustAnchors(bundles []*certificatesv1.ClusterTrustBundle) ([]byte, error) {
	anchors, size := map[[sha256.Size]byte][]byte{}, 0
	for _, bundle := range bundles {
		if size += len(bundle.Spec.TrustBundle); size > maxTrustAnchors {
			return nil, fmt.Errorf("the selected cluster trust bundles have more than %d bytes", maxTrustAnchors)
		}
		for block, rest := pem.Decode([]byte(bundle.Spec.TrustBundle)); block != nil; block, rest = pem.Decode(rest) {
			anchors[sha256.Sum256(block.Bytes)] = block.Bytes
		}
	}
	var data bytes.Buffer
	order := slices.SortedFunc(maps.Keys(anchors), func(a, b [sha256.Size]byte) int { return bytes.Compare(a[:], b[:]) })
	for _, digest := range order {
		if err := pem.Encode(&data, &pem.Block{Type: "CERTIFICATE", Bytes: anchors[digest]}); err != nil {
			return nil, fmt.Errorf("encoding a trust anchor: %w", err)
		}
	}
	return data.Bytes(), nil
}

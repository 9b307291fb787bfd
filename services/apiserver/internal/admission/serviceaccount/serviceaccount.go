// Package serviceaccount is the plugin ServiceAccount.
package serviceaccount

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilrand "k8s.io/apimachinery/pkg/util/rand"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
)

const (
	// tokenPath is where a container finds its service account's token.
	tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount"
	// tokenSeconds is the requested lifetime of a token: an hour and seven seconds, by which
	// Kubernetes recognizes tokens that it has mounted itself.
	tokenSeconds = 3607
	// rootCA is the ConfigMap with the apiserver's CA certificate, in every namespace.
	rootCA = "kube-root-ca.crt"
	// The default service account of a new namespace appears a moment after it. A pod waits this
	// long for it, as in Kubernetes' plugin.
	defaultAccountWait  = 1500 * time.Millisecond
	defaultAccountEvery = 100 * time.Millisecond
	// enforceSecrets is the annotation of an account whose pods may mount only the account's
	// secrets.
	enforceSecrets = "kubernetes.io/enforce-mountable-secrets"
)

// mirrorPod is the annotation of a mirror pod, the API's picture of a pod that a node runs from a
// file.
const mirrorPod = corev1.MirrorPodAnnotationKey

// Plugin returns the plugin.
func Plugin(objects admission.Objects) admission.Plugin {
	return admission.Plugin{Mutate: serviceAccount(objects), Validate: checkServiceAccount(objects)}
}

// serviceAccount sets each new pod's service account, and mounts in its containers the token and
// certificate that they need to reach the API.
func serviceAccount(objects admission.Objects) func(context.Context, *admission.Request) error {
	return func(ctx context.Context, req *admission.Request) error {
		pod, ok := req.Object.(*corev1.Pod)
		if !ok || req.Verb != admission.Create || req.Subresource != "" {
			return nil
		}
		if isMirror(pod) {
			return checkMirrorPod(req, pod) // The pod already runs and cannot be changed.
		}
		if pod.Spec.ServiceAccountName == "" {
			pod.Spec.ServiceAccountName = "default"
		}
		pod.Spec.DeprecatedServiceAccount = pod.Spec.ServiceAccountName
		account, err := accountOf(ctx, objects, req, pod)
		if err != nil {
			return err
		}
		if mounts(account, pod) {
			mountToken(pod)
		}
		if len(pod.Spec.ImagePullSecrets) == 0 {
			pod.Spec.ImagePullSecrets = slices.Clone(account.ImagePullSecrets)
		}
		return nil
	}
}

// checkServiceAccount refuses pods without a service account. If the account asks for it, it also
// refuses pods and ephemeral containers with secrets that the account does not list.
func checkServiceAccount(objects admission.Objects) func(context.Context, *admission.Request) error {
	return func(ctx context.Context, req *admission.Request) error {
		pod, ok := req.Object.(*corev1.Pod)
		if !ok {
			return nil
		}
		ephemeral := req.Verb == admission.Update && req.Subresource == "ephemeralcontainers"
		if !ephemeral && (req.Verb != admission.Create || req.Subresource != "") {
			return nil
		}
		if !ephemeral && isMirror(pod) {
			return checkMirrorPod(req, pod)
		}
		if pod.Spec.ServiceAccountName == "" {
			return admission.Forbidden(req, fmt.Errorf("no service account specified for pod %s/%s", req.Namespace, pod.Name))
		}
		account, err := accountOf(ctx, objects, req, pod)
		if err != nil {
			return err
		}
		if limit, err := strconv.ParseBool(account.Annotations[enforceSecrets]); err != nil || !limit {
			return nil
		}
		if err := checkSecrets(account, pod, ephemeral); err != nil {
			return admission.Forbidden(req, err)
		}
		return nil
	}
}

func isMirror(pod *corev1.Pod) bool {
	_, ok := pod.Annotations[mirrorPod]
	return ok
}

// accountOf returns the account that a pod names, or a refusal if it doesn't exist.
func accountOf(ctx context.Context, objects admission.Objects, req *admission.Request, pod *corev1.Pod) (*corev1.ServiceAccount, error) {
	account, err := findAccount(ctx, objects, req.Namespace, pod.Spec.ServiceAccountName)
	if apierrors.IsNotFound(err) {
		err = apierrors.NewNotFound(corev1.Resource("serviceaccount"), pod.Spec.ServiceAccountName)
	}
	if err != nil {
		return nil, admission.Forbidden(req, fmt.Errorf("error looking up service account %s/%s: %w", req.Namespace, pod.Spec.ServiceAccountName, err))
	}
	return account, nil
}

func findAccount(ctx context.Context, objects admission.Objects, namespace, name string) (*corev1.ServiceAccount, error) {
	account, err := admission.Get[*corev1.ServiceAccount](ctx, objects, namespace, name)
	if name != "default" || !apierrors.IsNotFound(err) {
		return account, err
	}
	ctx, cancel := context.WithTimeout(ctx, defaultAccountWait)
	defer cancel()
	ticker := time.NewTicker(defaultAccountEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, err
		case <-ticker.C:
		}
		account, retryErr := admission.Get[*corev1.ServiceAccount](ctx, objects, namespace, name)
		if retryErr == nil {
			return account, nil
		}
		if !apierrors.IsNotFound(retryErr) && ctx.Err() == nil {
			return nil, retryErr
		}
	}
}

// mounts reports whether a pod gets a token: it does unless the pod, or else its account, opts out.
func mounts(account *corev1.ServiceAccount, pod *corev1.Pod) bool {
	if pod.Spec.AutomountServiceAccountToken != nil {
		return *pod.Spec.AutomountServiceAccountToken
	}
	return account.AutomountServiceAccountToken == nil || *account.AutomountServiceAccountToken
}

// mountToken adds the token volume to a pod, and its mount to each container that has none at that
// path.
func mountToken(pod *corev1.Pod) {
	volume := ""
	for _, v := range pod.Spec.Volumes {
		if len(v.Name) > len(tokenVolumePrefix) && v.Name[:len(tokenVolumePrefix)] == tokenVolumePrefix {
			volume = v.Name // A pod that was copied from another one already has it.
			break
		}
	}
	exists := volume != ""
	if !exists {
		volume = tokenVolumePrefix + utilrand.String(5)
	}
	mount := corev1.VolumeMount{Name: volume, ReadOnly: true, MountPath: tokenPath}
	used := false
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			if slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == tokenPath }) {
				continue
			}
			c.VolumeMounts = append(c.VolumeMounts, mount)
			used = true
		}
	}
	if used && !exists {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: volume, VolumeSource: tokenVolume()})
	}
}

const tokenVolumePrefix = "kube-api-access-"

func tokenVolume() corev1.VolumeSource {
	seconds := int64(tokenSeconds)
	mode := corev1.ProjectedVolumeSourceDefaultMode
	return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: &mode,
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &seconds}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: rootCA},
				Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
				Path:     "namespace",
				FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
			}}}},
		},
	}}
}

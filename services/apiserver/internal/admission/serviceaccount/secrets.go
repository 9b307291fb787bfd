package serviceaccount

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
)

// checkMirrorPod refuses a mirror pod that refers to objects which only the API holds, since the
// node started the pod without asking the API.
func checkMirrorPod(req *admission.Request, pod *corev1.Pod) error {
	if pod.Spec.ServiceAccountName != "" {
		return admission.Forbidden(req, errors.New("a mirror pod may not reference service accounts"))
	}
	if refersToSecrets(pod) {
		return admission.Forbidden(req, errors.New("a mirror pod may not reference secrets"))
	}
	for _, volume := range pod.Spec.Volumes {
		if volume.Projected == nil {
			continue
		}
		for _, source := range volume.Projected.Sources {
			if source.ServiceAccountToken != nil {
				return admission.Forbidden(req, errors.New("a mirror pod may not use ServiceAccountToken volume projections"))
			}
		}
	}
	return nil
}

// refersToSecrets reports whether a pod names a secret anywhere.
func refersToSecrets(pod *corev1.Pod) bool {
	if len(pod.Spec.ImagePullSecrets) > 0 {
		return true
	}
	for _, c := range containersOf(&pod.Spec) {
		if len(secretsOf(c)) > 0 {
			return true
		}
	}
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		switch {
		case v.Secret != nil,
			v.AzureFile != nil,
			v.CephFS != nil && v.CephFS.SecretRef != nil,
			v.Cinder != nil && v.Cinder.SecretRef != nil,
			v.FlexVolume != nil && v.FlexVolume.SecretRef != nil,
			v.RBD != nil && v.RBD.SecretRef != nil,
			v.ScaleIO != nil && v.ScaleIO.SecretRef != nil,
			v.ISCSI != nil && v.ISCSI.SecretRef != nil,
			v.StorageOS != nil && v.StorageOS.SecretRef != nil,
			v.CSI != nil && v.CSI.NodePublishSecretRef != nil:
			return true
		}
		return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool { return s.Secret != nil })
	})
}

// container is one of a pod's containers, with the sort that Kubernetes' messages name.
type container struct {
	sort string
	*corev1.Container
}

// containersOf returns all containers of a pod: init, ordinary and ephemeral.
func containersOf(spec *corev1.PodSpec) []container {
	var all []container
	for i := range spec.InitContainers {
		all = append(all, container{"init container", &spec.InitContainers[i]})
	}
	for i := range spec.Containers {
		all = append(all, container{"container", &spec.Containers[i]})
	}
	for i := range spec.EphemeralContainers {
		common := corev1.Container(spec.EphemeralContainers[i].EphemeralContainerCommon)
		all = append(all, container{"ephemeral container", &common})
	}
	return all
}

// reference is a secret in a container's environment, and its location in Kubernetes' words.
type reference struct{ where, secret string }

func secretsOf(c container) []reference {
	var found []reference
	for _, env := range c.Env {
		if env.ValueFrom != nil && env.ValueFrom.SecretKeyRef != nil {
			found = append(found, reference{"envVar " + env.Name, env.ValueFrom.SecretKeyRef.Name})
		}
	}
	for _, from := range c.EnvFrom {
		if from.SecretRef != nil {
			found = append(found, reference{"envFrom", from.SecretRef.Name})
		}
	}
	return found
}

// checkSecrets refuses a pod that refers to secrets which its account does not list. If ephemeral
// is true, it checks only the pod's ephemeral containers.
func checkSecrets(account *corev1.ServiceAccount, pod *corev1.Pod, ephemeral bool) error {
	mountable := map[string]bool{}
	for _, secret := range account.Secrets {
		mountable[secret.Name] = true
	}
	if !ephemeral {
		for _, volume := range pod.Spec.Volumes {
			if volume.Secret != nil && !mountable[volume.Secret.SecretName] {
				return fmt.Errorf("volume with secret.secretName=\"%s\" is not allowed because service account %s does not reference that secret", volume.Secret.SecretName, account.Name) //nolint:gocritic // Kubernetes' words.
			}
		}
	}
	for _, c := range containersOf(&pod.Spec) {
		if (c.sort == "ephemeral container") != ephemeral {
			continue
		}
		for _, ref := range secretsOf(c) {
			if !mountable[ref.secret] {
				return fmt.Errorf("%s %s with %s referencing secret.secretName=\"%s\" is not allowed because service account %s does not reference that secret", c.sort, c.Name, ref.where, ref.secret, account.Name) //nolint:gocritic // Kubernetes' words.
			}
		}
	}
	if ephemeral {
		return nil
	}
	for i, secret := range pod.Spec.ImagePullSecrets {
		if !slices.Contains(account.ImagePullSecrets, secret) {
			return fmt.Errorf("imagePullSecrets[%d].name=\"%s\" is not allowed because service account %s does not reference that imagePullSecret", i, secret.Name, account.Name) //nolint:gocritic // Kubernetes' words.
		}
	}
	return nil
}

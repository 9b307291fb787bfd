package node

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/garboard/garboard/libs/localvolume"
	"github.com/garboard/garboard/libs/podreferences"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

// onlyOf reports whether a request's field selector requires spec.nodeName to be the node.
func onlyOf(node string, want authz.Attributes) bool {
	for _, field := range want.Fields {
		if field.Field == "spec.nodeName" && field.Operator == selection.Equals && field.Value == node {
			return true
		}
	}
	return false
}

// getOwn is for objects that a node may only get, and that name their node themselves.
func (a *Authorizer) getOwn(node string, want authz.Attributes) answer {
	switch {
	case want.Verb != "get":
		return no("can only get individual resources of this type")
	case want.Subresource != "":
		return no("cannot get subresource")
	}
	return a.own(node, want)
}

// slice allows the ResourceSlices of a node. On create the content is not known yet, so admission
// checks it, as it checks each object of a deletecollection.
func (a *Authorizer) slice(node string, want authz.Attributes) answer {
	if want.Subresource != "" {
		return no("cannot authorize ResourceSlice subresources")
	}
	switch want.Verb {
	case "create":
		return allow()
	case "get", "update", "patch", "delete":
		return a.own(node, want)
	case "list", "watch", "deletecollection":
		if onlyOf(node, want) {
			return allow()
		}
		return no("can only list/watch/deletecollection resourceslices with nodeName field selector")
	}
	return no("only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection")
}

// certificateRequest allows a node's certificate requests for its pods; admission checks their
// content.
func (a *Authorizer) certificateRequest(node string, want authz.Attributes) answer {
	if want.Subresource != "" {
		return no("nodes may not access the status subresource of PodCertificateRequests")
	}
	switch want.Verb {
	case "create":
		return allow()
	case "get":
		return a.own(node, want)
	case "list", "watch":
		if onlyOf(node, want) {
			return allow()
		}
		return no("can only list/watch podcertificaterequests with nodeName field selector")
	}
	return no("can only create, get, list and watch podcertificaterequests")
}

// volume reports whether a volume is bound to a claim of one of the node's pods, or is local to the node. A
// node must read its local volumes also when no pod uses them, to learn which folders to remove. Their node
// is the one of that name: a node may set the label of its host name itself.
func (a *Authorizer) volume(node string, v *corev1.PersistentVolume) bool {
	if host, local := localvolume.HostOf(v); local && host == node {
		return true
	}
	return v.Spec.ClaimRef != nil && a.refers(node, podreferences.Claim, v.Spec.ClaimRef.Namespace, v.Spec.ClaimRef.Name)
}

// own allows an object that is known to be the node's.
func (a *Authorizer) own(node string, want authz.Attributes) answer {
	if want.Name == "" {
		return no("No Object name found")
	}
	if a.cfg.Cached == nil {
		return unrelated(node)
	}
	find := func(gv schema.GroupVersion, kind string) any {
		obj, _ := a.cfg.Cached(gv.WithKind(kind), want.Namespace, want.Name)
		return obj
	}
	var is bool
	switch want.Resource {
	case "persistentvolumes":
		volume, ok := find(corev1.SchemeGroupVersion, "PersistentVolume").(*corev1.PersistentVolume)
		is = ok && a.volume(node, volume)
	case "volumeattachments":
		attachment, ok := find(storagev1.SchemeGroupVersion, "VolumeAttachment").(*storagev1.VolumeAttachment)
		is = ok && attachment.Spec.NodeName == node
	case "resourceslices":
		slice, ok := find(resourcev1.SchemeGroupVersion, "ResourceSlice").(*resourcev1.ResourceSlice)
		is = ok && slice.Spec.NodeName != nil && *slice.Spec.NodeName == node
	case "podcertificaterequests":
		request, ok := find(certificatesv1.SchemeGroupVersion, "PodCertificateRequest").(*certificatesv1.PodCertificateRequest)
		is = ok && string(request.Spec.NodeName) == node
	}
	if !is {
		return unrelated(node)
	}
	return allow()
}

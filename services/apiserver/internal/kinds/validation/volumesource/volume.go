package volumesource

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/claim"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/metadata"
)

// origin is one kind of volume source: its name in Kubernetes' error about a second one, which for one
// source is misspelt, whether it is set, and its check.
type origin struct {
	name  string
	there bool
	check func() field.ErrorList
}

// Volume validates the source of a pod's volume. podName may be empty if it is unknown. There must
// be exactly one source: the first in Kubernetes' order is checked, any other is an error.
func Volume(v *corev1.Volume, podName string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	found := false
	for _, o := range slices.Concat(firstOrigins(v, at), lastOrigins(v, podName, at)) {
		switch {
		case !o.there:
		case found:
			errs = append(errs, field.Forbidden(at.Child(o.name), "may not specify more than 1 volume type"))
		default:
			found = true
			errs = append(errs, o.check()...)
		}
	}
	if v.ISCSI != nil {
		errs = append(errs, iscsiName(v.ISCSI, v.Name, at.Child("name"))...)
	}
	if !found {
		errs = append(errs, field.Required(at, "must specify a volume type"))
	}
	return errs
}

// firstOrigins returns the first half of the sources, in the order in which Kubernetes looks for them.
func firstOrigins(v *corev1.Volume, at *field.Path) []origin {
	return []origin{
		{"emptyDir", v.EmptyDir != nil, func() field.ErrorList {
			if limit := v.EmptyDir.SizeLimit; limit != nil && limit.Cmp(resource.Quantity{}) < 0 {
				return field.ErrorList{field.Forbidden(at.Child("emptyDir", "sizeLimit"), "SizeLimit field must be a valid resource quantity")}
			}
			return nil
		}},
		{"hostPath", v.HostPath != nil, func() field.ErrorList { return HostPath(v.HostPath, at.Child("hostPath")) }},
		{"gitRepo", v.GitRepo != nil, func() field.ErrorList {
			at := at.Child("gitRepo")
			return append(Required(v.GitRepo.Repository, at.Child("repository")), Descending(v.GitRepo.Directory, at.Child("directory"))...)
		}},
		{"gcePersistentDisk", v.GCEPersistentDisk != nil, func() field.ErrorList {
			at := at.Child("persistentDisk")
			return append(Required(v.GCEPersistentDisk.PDName, at.Child("pdName")), Partition(v.GCEPersistentDisk.Partition, at)...)
		}},
		{"awsElasticBlockStore", v.AWSElasticBlockStore != nil, func() field.ErrorList {
			at := at.Child("awsElasticBlockStore")
			return append(Required(v.AWSElasticBlockStore.VolumeID, at.Child("volumeID")), Partition(v.AWSElasticBlockStore.Partition, at)...)
		}},
		{"secret", v.Secret != nil, func() field.ErrorList {
			at := at.Child("secret")
			errs := append(Required(v.Secret.SecretName, at.Child("secretName")), mode(v.Secret.DefaultMode, at.Child("defaultMode"))...)
			return append(errs, items(v.Secret.Items, at.Child("items"))...)
		}},
		{"nfs", v.NFS != nil, func() field.ErrorList { return NFS(v.NFS, at.Child("nfs")) }},
		{"iscsi", v.ISCSI != nil, func() field.ErrorList { return iscsi(v.ISCSI, at.Child("iscsi")) }},
		{"glusterfs", v.Glusterfs != nil, func() field.ErrorList { return glusterfs(v.Glusterfs, at.Child("glusterfs")) }},
		{"flocker", v.Flocker != nil, func() field.ErrorList { return Flocker(v.Flocker, at.Child("flocker")) }},
		{"persistentVolumeClaim", v.PersistentVolumeClaim != nil, func() field.ErrorList {
			return Required(v.PersistentVolumeClaim.ClaimName, at.Child("persistentVolumeClaim", "claimName"))
		}},
		{"rbd", v.RBD != nil, func() field.ErrorList {
			return append(RequiredList(v.RBD.CephMonitors, at.Child("rbd", "monitors")), Required(v.RBD.RBDImage, at.Child("rbd", "image"))...)
		}},
		{"cinder", v.Cinder != nil, func() field.ErrorList { return cinder(v.Cinder, at.Child("cinder")) }},
		{"cephFS", v.CephFS != nil, func() field.ErrorList { return RequiredList(v.CephFS.Monitors, at.Child("cephfs", "monitors")) }},
		{"quobyte", v.Quobyte != nil, func() field.ErrorList { return Quobyte(v.Quobyte, at.Child("quobyte")) }},
		{"downwarAPI", v.DownwardAPI != nil, func() field.ErrorList {
			errs := mode(v.DownwardAPI.DefaultMode, at.Child("downwardAPI", "defaultMode"))
			for i := range v.DownwardAPI.Items {
				errs = append(errs, downward(&v.DownwardAPI.Items[i], at.Child("downwardAPI"))...)
			}
			return errs
		}},
	}
}

// lastOrigins returns the second half of the sources.
func lastOrigins(v *corev1.Volume, podName string, at *field.Path) []origin {
	return []origin{
		{"fc", v.FC != nil, func() field.ErrorList { return FibreChannel(v.FC, at.Child("fc")) }},
		{"flexVolume", v.FlexVolume != nil, func() field.ErrorList {
			return Flex(v.FlexVolume.Driver, v.FlexVolume.Options, at.Child("flexVolume"))
		}},
		{"configMap", v.ConfigMap != nil, func() field.ErrorList {
			at := at.Child("configMap")
			errs := append(Required(v.ConfigMap.Name, at.Child("name")), mode(v.ConfigMap.DefaultMode, at.Child("defaultMode"))...)
			return append(errs, items(v.ConfigMap.Items, at.Child("items"))...)
		}},
		{"azureFile", v.AzureFile != nil, func() field.ErrorList {
			at := at.Child("azureFile")
			return append(Required(v.AzureFile.SecretName, at.Child("secretName")), Required(v.AzureFile.ShareName, at.Child("shareName"))...)
		}},
		{"vsphereVolume", v.VsphereVolume != nil, func() field.ErrorList {
			return Required(v.VsphereVolume.VolumePath, at.Child("vsphereVolume", "volumePath"))
		}},
		{"photonPersistentDisk", v.PhotonPersistentDisk != nil, func() field.ErrorList {
			return Required(v.PhotonPersistentDisk.PdID, at.Child("photonPersistentDisk", "pdID"))
		}},
		{"portworxVolume", v.PortworxVolume != nil, func() field.ErrorList {
			return Required(v.PortworxVolume.VolumeID, at.Child("portworxVolume", "volumeID"))
		}},
		{"azureDisk", v.AzureDisk != nil, func() field.ErrorList { return AzureDisk(v.AzureDisk, at.Child("azureDisk")) }},
		{"storageos", v.StorageOS != nil, func() field.ErrorList { return storageOS(v.StorageOS, at.Child("storageos")) }},
		{"projected", v.Projected != nil, func() field.ErrorList { return projected(v.Projected, at.Child("projected")) }},
		{"scaleIO", v.ScaleIO != nil, func() field.ErrorList {
			at := at.Child("scaleIO")
			return slices.Concat(Required(v.ScaleIO.Gateway, at.Child("gateway")), Required(v.ScaleIO.System, at.Child("system")),
				Required(v.ScaleIO.VolumeName, at.Child("volumeName")))
		}},
		{"csi", v.CSI != nil, func() field.ErrorList { return csi(v.CSI, at.Child("csi")) }},
		{"ephemeral", v.Ephemeral != nil, func() field.ErrorList { return ephemeralVolume(v, podName, at) }},
		{"image", v.Image != nil, func() field.ErrorList {
			at := at.Child("image")
			return append(Required(v.Image.Reference, at.Child("reference")),
				pullPolicy(v.Image.PullPolicy, at.Child("pullPolicy"))...)
		}},
	}
}

// ephemeralVolume checks a volume whose claim is created and deleted with the pod.
func ephemeralVolume(v *corev1.Volume, podName string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	path := at.Child("ephemeral", "volumeClaimTemplate")
	if template := v.Ephemeral.VolumeClaimTemplate; template == nil {
		errs = append(errs, field.Required(path, ""))
	} else {
		errs = append(errs, metadata.ValidateTemplate(&template.ObjectMeta, path.Child("metadata"))...)
		errs = append(errs, claim.Spec(&template.Spec, nil, path.Child("spec"))...)
	}
	if podName == "" || v.Name == "" {
		return errs
	}
	name := podName + "-" + v.Name
	for _, msg := range apivalidation.NameIsDNSSubdomain(name, false) {
		errs = append(errs, field.Invalid(at.Child("name"), v.Name, fmt.Sprintf("PVC name %q: %v", name, msg)))
	}
	return errs
}

func pullPolicy(policy corev1.PullPolicy, path *field.Path) field.ErrorList {
	allowed := []corev1.PullPolicy{corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever}
	switch {
	case policy == "":
		return field.ErrorList{field.Required(path, "")}
	case !slices.Contains(allowed, policy):
		return field.ErrorList{field.NotSupported(path, policy, allowed)}
	}
	return nil
}

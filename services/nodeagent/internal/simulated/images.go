package simulated

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/images"
)

// PullImage registers the image. The image's digests are derived from its name.
func (r *Runtime) PullImage(ctx context.Context, request *cri.PullImageRequest) (*cri.PullImageResponse, error) {
	annotations := request.GetImage().GetAnnotations()
	name, err := images.Normalize(request.GetImage().GetImage())
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "failed to parse image reference %q: %v", request.GetImage().GetImage(), err)
	}
	if text, ok := annotation(annotations, keyPullDelay, ""); ok {
		delay, err := time.ParseDuration(text)
		if err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "%s%s is %q, not a duration like 2s", AnnotationPrefix, keyPullDelay, text)
		}
		if err := wait(ctx, delay); err != nil {
			return nil, status.FromContextError(err).Err()
		}
	}
	if words, fail := annotation(annotations, keyFailPull, ""); fail {
		return nil, status.Errorf(codes.Unknown, "failed to pull and unpack image %q: %s", name, words)
	}
	pulled := imageOf(name)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.store.write(imageFolder, fileName(name), pulled); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	r.images[name] = pulled
	return &cri.PullImageResponse{ImageRef: pulled.ID}, nil
}

// ImageStatus returns one image by name or ID.
func (r *Runtime) ImageStatus(_ context.Context, request *cri.ImageStatusRequest) (*cri.ImageStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := r.findImage(request.GetImage().GetImage())
	if found == nil {
		return &cri.ImageStatusResponse{}, nil
	}
	return &cri.ImageStatusResponse{Image: found.cri()}, nil
}

// ListImages lists the pulled images.
func (r *Runtime) ListImages(_ context.Context, request *cri.ListImagesRequest) (*cri.ListImagesResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	answer := &cri.ListImagesResponse{}
	wanted := request.GetFilter().GetImage().GetImage()
	for _, one := range r.images {
		if wanted == "" || r.findImage(wanted) == one {
			answer.Images = append(answer.Images, one.cri())
		}
	}
	return answer, nil
}

// RemoveImage removes an image.
func (r *Runtime) RemoveImage(_ context.Context, request *cri.RemoveImageRequest) (*cri.RemoveImageResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if found := r.findImage(request.GetImage().GetImage()); found != nil {
		if err := r.store.remove(imageFolder, fileName(found.Name)); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		delete(r.images, found.Name)
	}
	return &cri.RemoveImageResponse{}, nil
}

// ImageFsInfo reports that images use no space.
func (r *Runtime) ImageFsInfo(context.Context, *cri.ImageFsInfoRequest) (*cri.ImageFsInfoResponse, error) {
	return &cri.ImageFsInfoResponse{ImageFilesystems: []*cri.FilesystemUsage{{
		Timestamp: time.Now().UnixNano(), FsId: &cri.FilesystemIdentifier{Mountpoint: r.cfg.Dir},
		UsedBytes: &cri.UInt64Value{}, InodesUsed: &cri.UInt64Value{},
	}}}, nil
}

// findImage returns an image by ID, digest reference or name; nil when it has not been pulled.
func (r *Runtime) findImage(ref string) *image {
	for _, one := range r.images {
		if one.ID == ref || one.Ref == ref {
			return one
		}
	}
	name, err := images.Normalize(ref)
	if err != nil {
		return nil
	}
	return r.images[name]
}

// imageOf returns the image of a name, the same each time.
func imageOf(name string) *image {
	repository, digest, _ := strings.Cut(name, "@")
	if colon := strings.LastIndex(repository, ":"); colon > strings.LastIndex(repository, "/") {
		repository = repository[:colon]
	}
	if digest == "" {
		digest = digestOf("manifest of " + name)
	}
	// The size is between 4 and 100 MB, as is common for images.
	id := sha256.Sum256([]byte("configuration of " + digest))
	size := 4_000_000 + binary.BigEndian.Uint64(id[:])%96_000_000
	return &image{Name: name, ID: "sha256:" + hex.EncodeToString(id[:]), Ref: repository + "@" + digest, Size: size}
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func fileName(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}

func (i *image) cri() *cri.Image {
	out := &cri.Image{Id: i.ID, RepoDigests: []string{i.Ref}, Size: i.Size}
	if !strings.Contains(i.Name, "@") {
		out.RepoTags = []string{i.Name}
	}
	return out
}

# The images of all services, one target each: apiserver, controllers, scheduler, nodeagent, and cli,
# which contains bin/garboard. `make images` and compose/compose.yaml build them.
#
# Build arguments: VERSION and REVISION are written into programs and labels; GOPROXY and GOSUMDB are
# Go's, for networks with a module proxy. The secret "ca" is a bundle of certificate authorities to trust
# when Go modules are downloaded, for networks with their own authority. GO_IMAGE is the image that
# builds, NODE_IMAGE the base image of nodes; name them by digest for reproducible builds.

ARG GO_IMAGE=golang:1.26
ARG NODE_IMAGE=debian:bookworm-slim

FROM ${GO_IMAGE} AS build
WORKDIR /src
ENV CGO_ENABLED=0 GOFLAGS=-buildvcs=false GOCACHE=/go/build-cache
ARG GOPROXY
ARG GOSUMDB
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=secret,id=ca \
    if [ -s /run/secrets/ca ]; then export SSL_CERT_FILE=/run/secrets/ca; fi; \
    go mod download
COPY cmd cmd
COPY libs libs
COPY proto proto
COPY services services
ARG VERSION=unknown
# One command, since the services share most packages. As in the Makefile, kubectl in bin/garboard
# reports the version of the Kubernetes release whose API Garboard serves. gRPC's tracing pages use
# templates, for which the linker keeps every method of every type: a quarter of a service's image.
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/go/build-cache --mount=type=secret,id=ca \
    if [ -s /run/secrets/ca ]; then export SSL_CERT_FILE=/run/secrets/ca; fi; \
    kubernetes=$(go list -m -f '{{.Version}}' k8s.io/api | sed 's/^v0\./v1./'); \
    minor=${kubernetes#v1.}; stamp=k8s.io/component-base/version; \
    go build -trimpath -tags grpcnotrace -o /out/ -ldflags "-s -w -X main.version=$VERSION -X $stamp.gitVersion=$kubernetes \
        -X $stamp.gitMajor=1 -X $stamp.gitMinor=${minor%%.*} -X $stamp.gitTreeState=clean" ./cmd/...
# The file system of the images based on scratch: /tmp and the program's own folder. The command line's
# image also has the mount points for the output of `garboard init` and for the data of etcd and NATS,
# since an empty volume inherits the owner of its mount point.
RUN mkdir -p /skeleton/tmp /skeleton/var/lib/garboard /volumes/pki /volumes/data \
 && cd /volumes/pki && mkdir ca apiserver controllers scheduler nodeagent etcd nats gateway prometheus admin \
 && cd /volumes/data && mkdir join etcd etcd-1 etcd-2 etcd-3 nats nats-1 nats-2 nats-3 prometheus

FROM scratch AS service
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.vendor="Garboard" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/garboard/garboard" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
COPY --from=build --chown=65532:65532 /skeleton/ /
USER 65532:65532
WORKDIR /var/lib/garboard

FROM service AS apiserver
LABEL org.opencontainers.image.title="Garboard apiserver" \
      org.opencontainers.image.description="Serves the Kubernetes API from etcd and publishes its changes on NATS"
COPY --from=build /out/apiserver /apiserver
EXPOSE 6443
ENTRYPOINT ["/apiserver"]

FROM service AS controllers
LABEL org.opencontainers.image.title="Garboard controllers" \
      org.opencontainers.image.description="Drives the current state towards the desired state"
COPY --from=build /out/controllers /controllers
EXPOSE 10257
ENTRYPOINT ["/controllers"]

FROM service AS scheduler
LABEL org.opencontainers.image.title="Garboard scheduler" \
      org.opencontainers.image.description="Assigns pods to nodes"
COPY --from=build /out/scheduler /scheduler
EXPOSE 10259
ENTRYPOINT ["/scheduler"]

FROM service AS cli
LABEL org.opencontainers.image.title="Garboard command line" \
      org.opencontainers.image.description="Creates the certificates of a deployment, and operates it"
COPY --from=build --chown=65532:65532 /volumes/ /
COPY --from=build /out/garboard /garboard
ENTRYPOINT ["/garboard"]

# The node: a container runtime and the node agent. It must run privileged, since it runs containers
# itself.
FROM ${NODE_IMAGE} AS nodeagent
RUN apt-get update -q \
 && apt-get install -yq --no-install-recommends ca-certificates containerd containernetworking-plugins iptables nftables runc \
 && rm -rf /var/lib/apt/lists/*
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.vendor="Garboard" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/garboard/garboard" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.title="Garboard node" \
      org.opencontainers.image.description="Runs pods: containerd, and the node agent that drives it"
COPY --chmod=0755 images/node/entrypoint /usr/local/bin/node
COPY images/node/containerd.toml /etc/containerd/config.toml
COPY --from=build /out/nodeagent /usr/local/bin/nodeagent
# Images and containers need storage outside the container's own file system.
VOLUME /var/lib/garboard
EXPOSE 10248
ENTRYPOINT ["/usr/local/bin/node"]

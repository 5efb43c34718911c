package providercheck

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	utilversion "k8s.io/apimachinery/pkg/util/version"
)

const (
	gitHub    = "github.com"
	gitHubAPI = "https://api.github.com"
	// maxFiles bounds what is read of a release. The largest known one has 150 YAML files.
	maxFiles = 500
)

// errAbsent says that a file is not there.
var errAbsent = errors.New("not found")

// remote reads a release from the network.
func (s Source) remote(ctx context.Context) ([]*Release, error) {
	u, err := url.Parse(s.Place)
	if err != nil {
		return nil, fmt.Errorf("%s is not a valid URL: %w", s.Place, err)
	}
	if u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%s: a release is read by https only, or from a directory", u.Redacted())
	}
	s.Client = httpsOnly(s.Client)
	if u.Host == gitHub {
		return s.fromGitHub(ctx, u)
	}
	return s.beside(ctx, u)
}

// requestTimeout bounds one file.
const requestTimeout = 2 * time.Minute

// httpsOnly returns a client like c that no redirect leads away from https.
func httpsOnly(c *http.Client) *http.Client {
	if c == nil {
		c = &http.Client{Timeout: requestTimeout}
	}
	secure := *c
	secure.CheckRedirect = func(request *http.Request, via []*http.Request) error {
		switch {
		case request.URL.Scheme != "https":
			return fmt.Errorf("redirect to %s: a release is read by https only", request.URL.Redacted())
		case len(via) >= maxRedirects:
			return fmt.Errorf("more than %d redirects", maxRedirects)
		}
		return nil
	}
	return &secure
}

// maxRedirects is what net/http allows, too.
const maxRedirects = 10

// gitHubRelease is what GitHub's API says of a release, as far as it is used here.
type gitHubRelease struct {
	Tag    string `json:"tag_name"` //nolint:tagliatelle // GitHub names it so
	Assets []struct {
		Name string `json:"name"`
		URL  string `json:"url"`
	} `json:"assets"`
}

// fromGitHub reads https://github.com/OWNER/REPOSITORY/releases/[tag/|download/]VERSION[/FILE],
// which is the page of a release, or the URL of a provider in clusterctl's configuration.
func (s Source) fromGitHub(ctx context.Context, u *url.URL) ([]*Release, error) {
	parts := strings.Split(strings.Trim(u.Path, "/"), "/")
	if len(parts) < 4 || parts[2] != "releases" {
		return nil, fmt.Errorf("%s: write https://github.com/OWNER/REPOSITORY/releases/VERSION, where VERSION may be latest", u)
	}
	rest := parts[3:]
	if len(rest) > 1 && (rest[0] == "tag" || rest[0] == "download") {
		rest = rest[1:]
	}
	if len(rest) > 1 && rest[1] == "download" { // latest/download/FILE
		rest = slices.Delete(slices.Clone(rest), 1, 2)
	}
	address := cmp.Or(strings.TrimSuffix(s.GitHubAPI, "/"), gitHubAPI) + "/repos/" + parts[0] + "/" + parts[1] + "/releases/"
	if rest[0] != "latest" {
		address += "tags/"
	}
	data, err := s.get(ctx, address+rest[0], "application/vnd.github+json")
	if errors.Is(err, errAbsent) {
		return nil, fmt.Errorf("%s/%s has no release %s, or GITHUB_TOKEN may not read it: %w", parts[0], parts[1], rest[0], err)
	}
	if err != nil {
		return nil, err
	}
	var release gitHubRelease
	if err := json.Unmarshal(data, &release); err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	var files []*File
	for _, asset := range release.Assets {
		if !isYAML(asset.Name) || kindOf(asset.Name) == otherFile || len(rest) > 1 && typeOfComponents(asset.Name) != "" && asset.Name != rest[1] {
			continue
		}
		if len(files) == maxFiles {
			return nil, fmt.Errorf("%s has more than %d YAML files: not a release of a provider", s.Place, maxFiles)
		}
		data, err := s.get(ctx, asset.URL, "application/octet-stream")
		if err != nil {
			return nil, err
		}
		files = append(files, &File{Name: asset.Name, Raw: data})
	}
	return s.split(ctx, s.Place, release.Tag, files)
}

// beside reads the URL of a components file and the files beside it that clusterctl asks
// for: a web server does not list what it has.
func (s Source) beside(ctx context.Context, u *url.URL) ([]*Release, error) {
	name := path.Base(u.Path)
	if typeOfComponents(name) == "" {
		return nil, fmt.Errorf("%s: end the URL with the components file, such as infrastructure-components.yaml", u.Redacted())
	}
	var files []*File
	for _, name := range []string{name, metadataFile, defaultTemplate} {
		file, err := s.sibling(ctx, u, name)
		if errors.Is(err, errAbsent) && len(files) > 0 {
			continue
		}
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	classes, err := classNames(ctx, files)
	if err != nil {
		return nil, err
	}
	for _, class := range classes {
		file, err := s.sibling(ctx, u, classPrefix+class+".yaml")
		if errors.Is(err, errAbsent) {
			continue
		}
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	version := path.Base(path.Dir(u.Path))
	if _, err := utilversion.ParseSemantic(version); err != nil {
		version = ""
	}
	if label := path.Base(path.Dir(path.Dir(u.Path))); s.Provider == "" {
		if t, _ := splitLabel(label); t == typeOfComponents(name) {
			s.Provider = label
		}
	}
	return s.split(ctx, u.Redacted(), version, files)
}

// classNames are the ClusterClasses that templates name.
func classNames(ctx context.Context, files []*File) (names []string, err error) {
	r, err := newRelease(ctx, "", "", "", files)
	if err != nil {
		return nil, err
	}
	for _, o := range of(r.Templates, "Cluster") {
		if name := className(o); name != "" && !chosen(name) && !slices.Contains(names, name) && nameFormat.MatchString(name) {
			names = append(names, name)
		}
	}
	return names, nil
}

func (s Source) sibling(ctx context.Context, u *url.URL, name string) (*File, error) {
	data, err := s.get(ctx, u.ResolveReference(&url.URL{Path: name, RawQuery: u.RawQuery}).String(), "")
	if err != nil {
		return nil, err
	}
	return &File{Name: name, Raw: data}, nil
}

// get reads what is at an address. The token goes to the API of GitHub only; a redirect to
// another host loses it.
func (s Source) get(ctx context.Context, address, accept string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	if request.URL.Scheme != "https" {
		return nil, fmt.Errorf("%s: a release is read by https only", request.URL.Redacted())
	}
	if accept != "" {
		request.Header.Set("Accept", accept)
	}
	if s.GitHubToken != "" && strings.HasPrefix(address, cmp.Or(strings.TrimSuffix(s.GitHubAPI, "/"), gitHubAPI)+"/") {
		request.Header.Set("Authorization", "Bearer "+s.GitHubToken)
	}
	response, err := s.Client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	where := request.URL.Redacted()
	switch {
	case response.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("%s: %w", where, errAbsent)
	case response.Header.Get("X-RateLimit-Remaining") == "0" && response.StatusCode >= http.StatusBadRequest:
		return nil, fmt.Errorf("%s: the limit of requests is reached: set GITHUB_TOKEN, or download the release and give the directory", where)
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: %s", where, response.Status)
	}
	return readBounded(where, response.Body)
}

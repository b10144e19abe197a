/** The entry of attention over a picture. */

import { adapter } from "./adapter";
import { createImage } from "./overpicture";

export default adapter(createImage);
